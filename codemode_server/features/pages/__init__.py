"""The local pages that a person opens in a browser.

It hooks in as the command `ui` and as a channel of approvals (`page_channel`); calls do not pass it.
"""
