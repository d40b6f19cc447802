"""The HTTP gateway: one more producer, which speaks the APIs that programs speak already.

Knows HTTP. Keeps nothing between two requests that another gateway would miss, so any number may run side by side.
Needs the extra `gateway`; `import headrace` never imports it.
"""
