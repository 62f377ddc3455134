"""Texts → vectors by a model: what there is of it here, its process, and what is kept of its work.

    resolve_model  the settings and what is installed → the ways to a model, best first
    client         this end of the encoder's process; checks all that comes from it
    process        the process itself: frames, patience, its end
    frames         what is said between them
    build_encoders the settings → levels of the search, each with its encoder
    diagnostics    what of it would work here
    cached_encoder vectors that are known already; batches for those that are not
    vector_cache   the contract of where they are kept

    worker         the other end, a program; nothing of what follows is imported in ours
    model_folder   what a folder says of its model
    onnx_model     a model through onnxruntime
    torch_model    a model through sentence-transformers
    endpoint       a model elsewhere, behind an OpenAI-compatible address

A model is hundreds of megabytes and a library that may crash; so it never is in the process that serves the host.
"""
