"""What a benchmark runs: experiments, the units they expand to, who takes part, which images are drawn."""
