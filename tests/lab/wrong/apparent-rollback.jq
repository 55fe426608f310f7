# Somebody put `settings` right: then this was no apparent rollback.
(.configs[] | select(.name == "settings") | .digest) = "sr1:0000"
