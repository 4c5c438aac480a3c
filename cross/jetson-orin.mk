# Jetson Orin Nano, NX, AGX (JetPack 6: Ubuntu 22.04, JetPack 7: 24.04): Cortex-A78AE, sm_87.
include cross/aarch64.mk
TARGET_FLAGS := -march=armv8.2-a+dotprod+fp16 -mtune=cortex-a78ae
TARGET_NEEDS := atomics, fp16, dotprod
CUDA_ARCH := sm_87
GLIBC_MAX := 2.35
