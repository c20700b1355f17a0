"""A package, so that pytest ends with it the control plane that all of its tests share."""
