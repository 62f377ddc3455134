"""Runs programs in microVMs of microsandbox: one VM for each session, isolated by hardware virtualization.

`runtime` finds microsandbox and what this machine lacks for it, `image` manages the VMs' image, `probe_cache` remembers
whether a microVM boots here. The package `microsandbox` is imported inside functions only: it does not exist for every
platform, and loads 40 MB that a start without microVMs does not need.
"""
