"""The experiments of the paper, one TOML file each; `sparcal bench list` names them."""
