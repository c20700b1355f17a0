"""The agent as a Kubernetes device plugin: each container gets exactly the cards that its pod's annotation names.

The kubelet asks for devices without saying for whom. It admits one pod after another, though, and its pod-resources
interface lists the pod being admitted before that pod has devices: ``admission`` finds it, ``pinning`` reads the
annotation, ``plugin`` answers. ``reconcile`` holds what containers really have against what they should have.
"""
