"""Reports: what people look at. `model` is a result as plain data; one file renders each output."""
