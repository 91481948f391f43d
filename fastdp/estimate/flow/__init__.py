"""AdaGrid's measurements: the mirror flow in long implicit strides."""
