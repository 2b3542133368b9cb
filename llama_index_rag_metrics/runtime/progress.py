"""A progress bar on standard error, or in a notebook: tqdm's."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # a notebook without ipywidgets has a bar of text
    from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]


class ProgressBar(tqdm):  # type: ignore[misc, unused-ignore]
    """A bar that ends where nobody reads it any more, as behind `2>&1 | head`."""

    def display(self, *args: object, **kwargs: object) -> None:
        try:
            super().display(*args, **kwargs)
        except BrokenPipeError:  # tqdm would keep its lock, and Python never end
            self.disable = True
