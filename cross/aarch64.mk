# Any 64-bit ARM under Linux: a baseline of ARMv8.0, faster kernels picked at run time. Libraries come
# from the distribution, installed as a second architecture: cross/boards.md.
TRIPLET := aarch64-linux-gnu
CC := $(TRIPLET)-gcc
AR := $(TRIPLET)-ar
OBJDUMP := $(TRIPLET)-objdump
STRIP := $(TRIPLET)-strip
CXX :=
PKG_CONFIG := env PKG_CONFIG_LIBDIR=/usr/lib/$(TRIPLET)/pkgconfig:/usr/share/pkgconfig pkg-config
CROSS_PACKAGES := gcc-$(TRIPLET) libncurses-dev:arm64 libsodium-dev:arm64 libsqlite3-dev:arm64 \
  libpcre2-dev:arm64 libcjson-dev:arm64 libutf8proc-dev:arm64 libmd4c-dev:arm64 libcmocka-dev:arm64 qemu-user

# Runs the target's programs here; the sanitizers' libraries are the cross compiler's, and leak checks
# do not work under qemu.
RUN := $(if $(SAN),env ASAN_OPTIONS=detect_leaks=0 )qemu-aarch64$(if $(SAN), -E LD_LIBRARY_PATH=/usr/$(TRIPLET)/lib)
