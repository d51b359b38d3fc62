"""Opening published files as their manifests name them, wherever they lie now."""
