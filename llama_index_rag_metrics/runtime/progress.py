"""A progress bar on standard error, or in a notebook: tqdm's."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # a notebook without ipywidgets has a bar of text
    from tqdm.auto import tqdm as progress_bar  # type: ignore[import-untyped, unused-ignore]

__all__ = ["progress_bar"]
