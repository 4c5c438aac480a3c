#!/bin/sh
# check_cubins.sh FILE...: device code sm_NN.cubin is an ELF file for NVIDIA GPUs (machine 190) of the
# architecture that it is named for: in its flags the second byte since ABI 8 (CUDA 13), else the first.
set -eu
byte() { od -An -tu1 -j"$2" -N1 "$1" | tr -d ' '; }
for file in "$@"; do
    [ "$(byte "$file" 18)" = 190 ] || { echo "$file is no device code"; exit 1; }
    if [ "$(byte "$file" 8)" -ge 8 ]; then sm=$(byte "$file" 49); else sm=$(byte "$file" 48); fi
    [ "${file##*/}" = "sm_$sm.cubin" ] || { echo "$file is for sm_$sm"; exit 1; }
done
echo "cubins: $# of the architectures they are named for"
