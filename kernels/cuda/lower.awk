# Joins the PTX of all files into one module that CUDA 12 drivers can read: the first file's header,
# version 8.2, without the hint used_bytes_mask, which 8.2 does not know.
FNR == 1 { first = NR == 1 }
/^\.(version|target|address_size)/ && !first { next }
/^\.extern \.shared/ && shared++ { next }
/used_bytes_mask/ { next }
{ sub(/^\.version .*/, ".version 8.2"); print }
