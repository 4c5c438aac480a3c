# retain: make, make debug, make check, make lint, make format, make compile_commands.json,
# make install, make info, make clean;
# make test, make T=evict (one test program), make bench, make fuzz: tests/tests.mk
# make dist, portable, deb and their checks: cross/packages.mk
# Variables: CC, CPPFLAGS, CFLAGS, LDFLAGS, SAN=1 (address and undefined-behaviour sanitizers) or thread, V=1, PREFIX, DESTDIR,
# CUDA=0 (no device code) or all (for every GPU), NVCC, CURL=0 (no downloads), TEST_DATA (folder of public models and
# vectors to test with, optional), CROSS=aarch64, jetson-orin or jetson-thor (builds for that target
# into a separate folder).

# Without make's own rules, which it would try for each of a thousand files; and with as many jobs as
# there are processors, without -j.
MAKEFLAGS += -r
PROCESSORS := $(shell nproc)
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(PROCESSORS)
endif

VERSION := 0.2.0
PREFIX ?= /usr/local
TEST_DATA ?= $(if $(CROSS),,../shared/data)
CC ?= cc
CXX ?= c++
PKG_CONFIG ?= pkg-config
OBJDUMP ?= objdump
STRIP ?= strip
PACKAGES := ncursesw libsodium sqlite3 libpcre2-8 libcjson libutf8proc md4c

ifneq ($(CROSS),)
ifeq ($(wildcard cross/$(CROSS).mk),)
$(error CROSS=$(CROSS): one of $(patsubst cross/%.mk,%,$(wildcard cross/*.mk)))
endif
include cross/$(CROSS).mk
endif

B := build$(if $(CROSS),/$(CROSS))$(if $(FUZZ),/fuzzers,$(if $(SAN),/$(if $(filter thread,$(SAN)),tsan,san)))$(if $(DEBUG),/debug)
ARCH := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null)))

# ---- detected tools and libraries ----------------------------------------------------------------

MISSING := $(foreach p,$(PACKAGES),$(if $(shell $(PKG_CONFIG) --exists $(p) 2>/dev/null && echo y),,$(p)))
NO_BUILD_GOALS := clean format info check help
ifneq ($(filter-out $(NO_BUILD_GOALS),$(or $(MAKECMDGOALS),all)),)
ifneq ($(strip $(MISSING)),)
$(error missing: $(MISSING). On Debian and Ubuntu: apt install $(or $(CROSS_PACKAGES),build-essential pkg-config \
  libncurses-dev libsodium-dev libsqlite3-dev libpcre2-dev libcjson-dev libutf8proc-dev libmd4c-dev))
endif
endif

# Device code is optional: without nvcc the program runs on the CPU. The PTX runs on every GPU from
# sm_80 on, compiled by the driver when it is loaded; cubins avoid this step: for RTX 40, on ARM for
# Orin and Thor, or with CUDA=all for every target. The emulator needs $(CXX), not nvcc.
NVCC ?= $(or $(shell command -v nvcc),$(wildcard /usr/local/cuda/bin/nvcc))
CUDA ?= $(if $(NVCC),1,0)
ifeq ($(filter 0 1 all,$(CUDA)),)
$(error CUDA=$(CUDA): 0, 1 or all)
endif
PTXAS = $(dir $(NVCC))ptxas
CUDA_KNOWS := $(if $(filter 0,$(CUDA)),,$(patsubst sm_%,%,$(shell $(PTXAS) --help | grep -o 'sm_[0-9]*')))
SM := $(or $(CUDA_ARCH:sm_%=%),$(filter $(CUDA_KNOWS),$(if $(filter all,$(CUDA)),80 86 87 89 90 110 120,$(if $(filter aarch64,$(ARCH)),87 110,89))))
CUDA_COMPILER := $(if $(filter 0,$(CUDA)),,$(shell $(PTXAS) --version | sed -n 's/.*release \([0-9]*\)\.\([0-9]*\).*/\10\20/p'))
HAVE_CXX := $(shell command -v $(firstword $(CXX)))

# Downloads need libcurl's headers, and libcurl when they run; CURL=0 builds without.
CURL ?= $(if $(shell $(PKG_CONFIG) --exists libcurl 2>/dev/null && echo y),1,0)
ifeq ($(filter 0 1,$(CURL)),)
$(error CURL=$(CURL): 0 or 1)
endif

ifeq ($(SAN),thread)
SANITIZE := -fsanitize=thread
else
SANITIZE := -fsanitize=address,undefined $(if $(FUZZ),-fsanitize=fuzzer-no-link -fno-sanitize-recover=all)
endif

# The commit and its time, from git; in an unpacked `make dist`, from the file that it filled in.
STAMP := $(or $(shell grep -v Format cross/commit),$(shell git log -1 --format='%H %ct' 2>/dev/null))
COMMIT := $(or $(shell printf %.12s $(firstword $(STAMP))),unknown)
export SOURCE_DATE_EPOCH ?= $(or $(lastword $(STAMP)),0)

# ---- flags ---------------------------------------------------------------------------------------

CFLAGS ?= -O2 -g
# What distributions ask for. A packager's own level of _FORTIFY_SOURCE, in CPPFLAGS or CFLAGS, stays.
HARDEN_x86_64 := -fcf-protection
HARDEN_aarch64 := -mbranch-protection=standard
HARDEN := -fstack-protector-strong -fstack-clash-protection $(HARDEN_$(ARCH)) \
  $(if $(SAN)$(DEBUG)$(findstring _FORTIFY_SOURCE,$(CPPFLAGS) $(CFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
WARN := -Wall -Wextra -Wformat -Werror=format-security -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes \
  -Wmissing-prototypes
override CFLAGS += -std=c11 -D_GNU_SOURCE -DRETAIN_VERSION='"$(VERSION)"' -I. -ffp-contract=off \
  -fno-math-errno $(TARGET_FLAGS) $(HARDEN) $(WARN) $(if $(SAN),$(SANITIZE) -fno-omit-frame-pointer) \
  $(if $(SAN)$(DEBUG),-DRETAIN_CHECKS)
# Not one of the recorded flags: a moved checkout need not be rebuilt.
PREFIX_MAP := -ffile-prefix-map=$(CURDIR)=.
PKG_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PACKAGES) 2>/dev/null)
LIBS := $(shell $(PKG_CONFIG) --libs $(PACKAGES) 2>/dev/null) -lm -lpthread
override LDFLAGS += -Wl,-z,relro -Wl,-z,now $(if $(SAN),$(SANITIZE))

# The instruction set is the file's name (kernels/cpu).
ISA_avx2 := -mavx2 -mfma -mf16c
ISA_avxvnni := $(ISA_avx2) -mavxvnni
ISA_avx512 := $(ISA_avx2) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni
ISA_dotprod := -march=armv8.2-a+dotprod
ISA_i8mm := -march=armv8.2-a+dotprod+i8mm
FOREIGN := %/$(if $(filter 1,$(CURL)),http_none,http_curl).c $(if $(filter x86_64,$(ARCH)),,%/avx2.c %/avxvnni.c %/avx512.c) \
  $(if $(filter aarch64,$(ARCH)),,%/neon.c %/dotprod.c %/i8mm.c)
# Variables in the kernels' debug information would take as long to compile as their loops.
isa_flags = $(ISA_$(patsubst kernels/cpu/%.c,%,$(filter kernels/cpu/%,$(1)))) \
  $(if $(filter kernels/cpu/%,$(1)),$(if $(filter -g,$(CFLAGS)),-g1))

# ---- sources -------------------------------------------------------------------------------------

ROOMS := base $(addprefix runtime/,model model/families template token cache cuda forward save session) kernels kernels/cpu kernels/cuda store \
  $(addprefix cli/,print options pull control plain commands) \
  $(addprefix quant/,convert heads files eval) $(addprefix tui/,term text chat view)
SRC := $(filter-out $(FOREIGN),$(foreach d,$(ROOMS),$(sort $(wildcard $(d)/*.c))))
# The library of the program and of the tests, and the program's device code, which tests do not link.
OBJ := $(filter-out %/images.o,$(SRC:%.c=$(B)/%.o))
MAIN := $(B)/main.o $(B)/kernels/cuda/images.o
DEMO := quant/demo/retain-demo.gguf quant/demo/retain-demo-heads.gguf


Q := $(if $(V),,@)
say = $(if $(V),,$(info $(space) $(1) $(2)))
space := $() $()

.PHONY: all debug check lint format info install clean FORCE
.DELETE_ON_ERROR:
.SECONDARY:

.DEFAULT_GOAL := $(if $(T),one,all)
all: $(B)/retain

# Without optimisation, for a debugger, in build/debug; with T= its tests, too.
debug:
	@$(MAKE) DEBUG=1 CFLAGS='-O0 -g3' $(if $(T),one,all)

$(B)/retain: $(MAIN) $(B)/libretain.a
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/libretain.a: $(OBJ) $(B)/sources
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) qcs $@ $(OBJ)

# Made again when a source is added or removed, or exchanged for another (CURL=).
$(B)/sources: FORCE
	@mkdir -p $(@D)
	@echo '$(SRC)' | cmp -s - $@ || echo '$(SRC)' > $@

$(B)/%.o: %.c $(B)/flags
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(PREFIX_MAP) $(PKG_CFLAGS) $(call isa_flags,$<) -MMD -MP -c -o $@ $<

# A build for one board starts on others, too, and names what they lack: these two files are compiled
# for any processor of the architecture.
ifneq ($(TARGET_NEEDS),)
$(B)/main.o $(B)/cli/print/target.o: private override CFLAGS += -march=armv8-a
$(B)/cli/print/target.o: private override PKG_CFLAGS += -DTARGET_NEEDS='"$(TARGET_NEEDS)"'
endif

# loops over keys: from -O3 on gcc 12 compares several keys at once
$(B)/runtime/cache/evict.o $(B)/runtime/forward/score.o: private CFLAGS += -O3

$(B)/runtime/model/demo.o: $(DEMO)
$(B)/runtime/model/codes.o: runtime/model/grids.bin
$(B)/runtime/forward/centre.o: runtime/forward/centre.txt
$(B)/quant/heads/heads_text.o: quant/heads/passages.txt

# Device code: PTX of each file, joined and lowered for CUDA 12 drivers, then a cubin per target.
# Not in a build folder, because it is the same for all flags. Made again by another compiler, whose
# drivers take it.
CU := build/cuda
CU_HEADERS := $(wildcard kernels/cuda/*.cuh) kernels/cuda/args.h
CU_FLAGS := -std=c++17 -fmad=false -I.
PTX := $(patsubst kernels/cuda/%.cu,$(CU)/%.ptx,$(sort $(wildcard kernels/cuda/*.cu)))
CUBINS := $(if $(filter 0,$(CUDA)),,$(SM:%=$(CU)/sm_%.cubin) $(CU)/device.ptx)

$(PTX): $(CU)/%.ptx: kernels/cuda/%.cu $(CU_HEADERS) $(CU)/compiler
	@mkdir -p $(@D)
	$(call say,PTX,$<)
	$(Q)$(NVCC) $(CU_FLAGS) -ptx -arch=compute_80 -o $@ $<

$(CU)/compiler: FORCE
	@mkdir -p $(@D)
	@echo '$(CUDA_COMPILER)' | cmp -s - $@ || echo '$(CUDA_COMPILER)' > $@

$(CU)/device.ptx: kernels/cuda/lower.awk $(PTX)
	$(Q)awk -f $^ > $@

$(CU)/sm_%.cubin: $(CU)/device.ptx
	$(call say,PTXAS,$@)
	$(Q)$(PTXAS) -arch=sm_$* -o $@ $<

$(B)/kernels/cuda/images.o: $(CUBINS) $(B)/cuda.flags
CUDA_LIST := -DCUDA_COMPILER=$(CUDA_COMPILER) '-DCUDA_IMAGES(X)=$(foreach s,$(SM),X($s))'
$(B)/kernels/cuda/images.o: private override CFLAGS += $(if $(CUBINS),-DCUDA_DIR='"$(CU)"' $(CUDA_LIST))

$(B)/cuda.flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CUBINS) $(CUDA_COMPILER)' | cmp -s - $@ || echo '$(CUBINS) $(CUDA_COMPILER)' > $@

# The facts that `retain --version` prints about this build.
VERSIONS = $(foreach p,$(PACKAGES),$(p)-$(or $(shell $(PKG_CONFIG) --modversion $(p) 2>/dev/null),MISSING))
FACTS = commit    $(COMMIT)\ntarget    $(or $(CROSS),$(ARCH))\ncompiler  $(notdir $(CC))-$(shell $(CC) -dumpfullversion)\nlibraries $(VERSIONS)

$(B)/facts.h: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '#define RETAIN_FACTS "$(FACTS)"' | cmp -s - $@ || \
	  printf '%s\n' '#define RETAIN_FACTS "$(FACTS)"' > $@

$(B)/main.o: $(B)/facts.h
$(B)/main.o: private PKG_CFLAGS += -I$(B)

# Rebuild everything when the compiler or its flags change. Makes the folders of all objects.
$(B)/flags: FORCE
	@mkdir -p $(sort $(dir $(OBJ) $(MAIN) $(EMU_CU) $(EMU_PIC))) $(addprefix $(B)/,$(wildcard tests/*/))
	@echo '$(CC) $(CPPFLAGS) $(CFLAGS) $(PKG_CFLAGS)' | cmp -s - $@ || \
	  echo '$(CC) $(CPPFLAGS) $(CFLAGS) $(PKG_CFLAGS)' > $@

check:
	@tests/check_layers.sh
	@tests/check_notice.sh
	@if command -v clang-format >/dev/null; then \
	  clang-format --dry-run -Werror $$(git ls-files '*.c' '*.h') && echo 'format: ok'; \
	else echo 'skip: clang-format is missing'; fi

# Checks scripts with shellcheck, sources with the few checks of .clang-tidy.
lint: compile_commands.json
	@if command -v shellcheck >/dev/null; then \
	  shellcheck -x -S warning -e SC2010 $$(git grep -lE '^#!/bin/(ba)?sh' -- . ':!*.c') && echo 'shellcheck: ok'; \
	else echo 'skip: shellcheck is missing'; fi
	@if command -v clang-tidy >/dev/null; then \
	  printf '%s\n' $(SRC) main.c | xargs -P "$$(nproc)" -n 8 clang-tidy --quiet -p . 2>/dev/null && echo 'clang-tidy: ok'; \
	else echo 'skip: clang-tidy is missing'; fi

# For editors and clang-tidy: the compile command of each source.
TEST_SRC := $(filter-out tests/emu/%,$(sort $(wildcard tests/*.c tests/*/*.c)))
compile_commands.json: FORCE
	$(if $(findstring n,$(firstword -$(MAKEFLAGS))),,$(file >$@.new,[$(subst }$(space){,}$(comma)$(newline){,$(strip $(foreach f,$(SRC) main.c $(TEST_SRC),$(call compile_command,$(f)))))]))
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
comma := ,
define newline


endef
compile_command = {"directory":"$(CURDIR)","file":"$(1)","command":"$(subst ",\",$(filter-out ccache,$(CC)) $(CPPFLAGS) $(CFLAGS) -I$(B) $(PKG_CFLAGS) $(call isa_flags,$(1)) -c $(1))"}

format:
	clang-format -i $$(git ls-files '*.c' '*.h')

# The manual page, from the program's own tables; test_manual.sh compares the two.
docs/retain.1: $(B)/retain
	$< manual >$@

# ---- the rest ------------------------------------------------------------------------------------

BINARY ?= $(B)/retain
SHARE = $(DESTDIR)$(PREFIX)/share
ZSH_COMPLETIONS ?= $(SHARE)/zsh/site-functions

install: $(BINARY)
	install $(if $(STRIP_INSTALLED),-s --strip-program=$(STRIP)) -Dm755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/retain
	install -Dm644 docs/retain.1 $(SHARE)/man/man1/retain.1
	install -Dm644 docs/completion/retain.bash $(SHARE)/bash-completion/completions/retain
	install -Dm644 docs/completion/_retain $(ZSH_COMPLETIONS)/_retain
	install -Dm644 docs/completion/retain.fish $(SHARE)/fish/vendor_completions.d/retain.fish

include tests/tests.mk
include cross/packages.mk

info:
	@echo 'retain $(VERSION) for $(ARCH) into $(B)'
	@echo 'compiler: $(shell $(CC) --version | head -n 1)'
	@echo 'packages: $(VERSIONS)'
	@echo 'cmocka: $(or $(shell $(PKG_CONFIG) --modversion cmocka 2>/dev/null),MISSING (needed by make test))'
	@echo 'nvcc: $(if $(filter 0,$(CUDA)),none: no device code,$(shell $(NVCC) --version | sed -n 's/.*release \([^,]*\),.*/\1/p') ($(NVCC)), for$(SM:%= sm_%) and PTX)'
	@echo 'emulator: $(or $(HAVE_CXX),$(CXX) is MISSING (make test-emu is skipped))'
	@echo 'libcurl: $(if $(filter 1,$(CURL)),$(shell $(PKG_CONFIG) --modversion libcurl),none: no downloads (libcurl4-openssl-dev))'
	@echo 'tmux: $(or $(shell command -v tmux),MISSING (screen tests are skipped))'
	@echo 'test data: $(or $(wildcard $(TEST_DATA)),none (tests that need it are skipped))'

clean:
	rm -rf build

-include $(OBJ:.o=.d) $(EMU_PIC:.o=.d) $(MAIN:.o=.d) $(wildcard $(B)/tests/*/*.d) $(EMU_OBJ:.o=.d)
