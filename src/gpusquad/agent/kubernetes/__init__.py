"""The agent as a Kubernetes device plugin: each container gets exactly the cards that its pod's annotation names.

The kubelet requests devices without naming the pod. But it admits one pod after another, and its pod-resources
interface lists the pod being admitted before that pod has devices. ``admission`` finds that pod, ``pinning`` reads the
annotation, ``plugin`` answers. ``reconcile`` compares the cards that containers have with those that they should have.
"""
