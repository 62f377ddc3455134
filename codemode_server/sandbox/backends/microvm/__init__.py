"""Programs in microVMs of microsandbox: a kernel of their own behind hardware virtualization, one VM to a session.

`runtime` knows where microsandbox is and what this machine lacks for it, `image` has the VMs' image, `verdict`
remembers whether one boots here. The package `microsandbox` is imported inside functions only: it is not there on every
platform, and weighs 40 MB that a start without microVMs must not load.
"""
