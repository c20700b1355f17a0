"""Step time and peak memory of a network, from its layers and the ceilings of the card.

``estimate`` is the entry point; ``calibrate`` measures a card. Front ends (``torch_module``, ``onnx_file``) turn a
network into a ``Graph`` of ``Op``. ``timing`` and ``measured`` compute the time of ops on a card, ``memory`` what they
hold.
"""
