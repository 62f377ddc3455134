"""Encoders: models that compute vectors of texts, in a separate process, with a cache of their vectors.

    resolve_model  finds the model that the settings name: installed packages, files, an endpoint
    client         the encoder as the search calls it; validates what its process returns
    process        starts, asks and ends the process
    frames         the messages between the two processes
    build_encoders builds vector rankers from the settings
    diagnostics    loads the encoders once, for `status` and `doctor`
    cached_encoder reuses known vectors; computes missing ones in batches

    worker         the program of the separate process; only it imports the modules below
    model_folder   reads the configuration of a model from its folder
    onnx_model     runs a model with onnxruntime
    torch_model    runs a model with sentence-transformers
    endpoint       calls a model behind an OpenAI-compatible address

A model takes hundreds of megabytes and its library may crash, so it never runs in the process that serves the host.
"""
