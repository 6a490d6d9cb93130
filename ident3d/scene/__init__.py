"""The scene of an image: a world that maps latents to scenes, and the meshes in it, without any renderer."""
