# settings-v1 was deleted and made again.
(.configs[] | select(.name == "settings-v1") | .uid) = "0000"
