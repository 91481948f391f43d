"""All other measurements: mirror descent, accelerated or plain."""
