"""Models and weight tags that timm and open_clip have heard of: asked before anything is built, fetched or written."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from importlib.util import find_spec

from sparcal.encoders.spec import EncoderSpec
from sparcal.errors import EncoderNameError

MOST_NAMED = 5  # names in a sentence
OWN_WEIGHTS = "a weight file of your own takes the tag that it was trained from"


def require_known_model(spec: EncoderSpec) -> None:
    """Refuse a model or a weight tag that its library does not know; other people's encoders look themselves."""
    if spec.source == "timm":
        _require_in_timm(spec)
    elif spec.source == "openclip" and find_spec("open_clip") is not None:  # loading says what to install
        _require_in_open_clip(spec)


def _require_in_timm(spec: EncoderSpec) -> None:
    import timm

    architecture, _, tag = spec.model.partition(".")
    if not timm.is_model(architecture):
        raise _unknown(spec, "timm", architecture, timm.list_models())
    tags = [name.partition(".")[2] for name in timm.list_pretrained(architecture)]
    try:
        timm.get_pretrained_cfg(spec.model)
    except RuntimeError:  # it knows tags of this architecture, and not this one
        raise _wrong_tag(spec, f"timm:{architecture}.TAG", tag, tags) from None
    if not tag:
        raise _wrong_tag(spec, f"timm:{architecture}.TAG", tag, tags)


def _require_in_open_clip(spec: EncoderSpec) -> None:
    import open_clip

    architecture, _, tag = spec.model.partition("/")
    names = open_clip.list_models()
    if architecture not in names:  # also the name of a repository, for which open_clip would ask the hub
        raise _unknown(spec, "open_clip", architecture, names)
    if not open_clip.get_pretrained_cfg(architecture, tag):
        tags = open_clip.list_pretrained_tags_by_model(architecture)
        raise _wrong_tag(spec, f"openclip:{architecture}/TAG", tag, tags)


def _unknown(spec: EncoderSpec, library: str, name: str, names: Iterable[str]) -> EncoderNameError:
    close = ", ".join(close_names(name, names)) or f"none, {library}.list_models() has them all"
    return EncoderNameError(f"{library} has no model {name!r} (in {str(spec)!r}); close ones: {close}.")


def _wrong_tag(spec: EncoderSpec, form: str, tag: str, tags: list[str]) -> EncoderNameError:
    got = f"the unknown tag {tag!r}" if tag else "no tag"
    known = ", ".join([*dict.fromkeys((*close_names(tag, tags), *tags))][:MOST_NAMED]) or "those of its model card"
    more = f" ({len(tags)} in all)" if len(tags) > MOST_NAMED else ""
    return EncoderNameError(
        f"The encoder {str(spec)!r} must name its weights, got {got}: write {form} with one of {known}{more}; {OWN_WEIGHTS}."
    )


def close_names(name: str, names: Iterable[str]) -> list[str]:
    """A few of the names that somebody may have meant: those that go on where this one ends, then those spelt alike.

    >>> close_names("resnet18.a1", ["resnet18.a1_in1k", "resnet18.a2_in1k", "vit"])
    ['resnet18.a1_in1k', 'resnet18.a2_in1k']
    """
    if not name:
        return []
    spelt = {known.casefold(): known for known in names}
    longer = [known for low, known in spelt.items() if low.startswith(name.casefold())]
    alike = [spelt[low] for low in get_close_matches(name.casefold(), spelt, n=MOST_NAMED)]
    return [*dict.fromkeys((*longer, *alike))][:MOST_NAMED]
