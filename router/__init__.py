"""The reference router: pure decisions in router.core, an aiohttp shell around them; runs as a process of its own."""
