# The snapshot that the Pods hold has another content than the baseline.
(.configs[] | select(.name | startswith("settings-sr-")) | .digest) = "sr1:0000"
