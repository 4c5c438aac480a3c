# Jetson Thor (JetPack 7: Ubuntu 24.04): Neoverse V3AE, sm_110. Its SVE2 vectors are as short as
# NEON's, so they have no separate kernels. gcc 12 knows no later core than the N2.
include cross/aarch64.mk
TARGET_FLAGS := -march=armv8.6-a+dotprod+fp16+i8mm -mtune=neoverse-n2
TARGET_NEEDS := atomics, fp16, dotprod, i8mm
CUDA_ARCH := sm_110
GLIBC_MAX := 2.35
