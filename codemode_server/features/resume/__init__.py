"""Interrupted programs that run again and get the recorded results of their calls.

It hooks in as a layer of calls (`call_layer`), a layer of executions (`reruns`) and in the order of answers
(`answer_order`).
"""
