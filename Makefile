# retain: make, make test, make check, make bench, make format, make install, make info, make clean;
# make dist, portable, deb and their checks: cross/packages.mk
# Variables: CC, CFLAGS, SAN=1 (address and undefined-behaviour sanitizers), V=1, PREFIX, DESTDIR,
# CUDA=0 (no device code) or all (for every GPU), NVCC, TEST_DATA (folder of public models and
# vectors to test with, optional), CROSS=aarch64, jetson-orin or jetson-thor (builds for that target
# into a folder of its own).

VERSION := 0.1.0
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

B := build$(if $(CROSS),/$(CROSS))$(if $(FUZZ),/fuzzers,$(if $(SAN),/san))
ARCH := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null)))

# ---- what was found ------------------------------------------------------------------------------

MISSING := $(foreach p,$(PACKAGES),$(if $(shell $(PKG_CONFIG) --exists $(p) 2>/dev/null && echo y),,$(p)))
NO_BUILD_GOALS := clean format info check help
ifneq ($(filter-out $(NO_BUILD_GOALS),$(or $(MAKECMDGOALS),all)),)
ifneq ($(strip $(MISSING)),)
$(error missing: $(MISSING). On Debian and Ubuntu: apt install $(or $(CROSS_PACKAGES),build-essential pkg-config \
  libncurses-dev libsodium-dev libsqlite3-dev libpcre2-dev libcjson-dev libutf8proc-dev libmd4c-dev))
endif
endif

# Device code is optional: without nvcc the program runs on the CPU. The PTX runs on every GPU from
# sm_80 on, compiled by the driver when it is loaded; cubins spare that: of RTX 40, on ARM of Orin and
# Thor, or with CUDA=all of every target. The emulator needs $(CXX), no nvcc.
NVCC ?= $(or $(shell command -v nvcc),$(wildcard /usr/local/cuda/bin/nvcc))
CUDA ?= $(if $(NVCC),1,0)
ifeq ($(filter 0 1 all,$(CUDA)),)
$(error CUDA=$(CUDA): 0, 1 or all)
endif
SM := $(or $(CUDA_ARCH:sm_%=%),$(if $(filter all,$(CUDA)),80 86 87 89 90 110 120,$(if $(filter aarch64,$(ARCH)),87 110,89)))
HAVE_CXX := $(shell command -v $(firstword $(CXX)))

SANITIZE := -fsanitize=address,undefined $(if $(FUZZ),-fsanitize=fuzzer-no-link -fno-sanitize-recover=all)

# The commit and when it was made, from git; in an unpacked `make dist`, from the file it filled in.
STAMP := $(or $(shell grep -v Format cross/commit),$(shell git log -1 --format='%H %ct' 2>/dev/null))
COMMIT := $(or $(shell printf %.12s $(firstword $(STAMP))),unknown)
export SOURCE_DATE_EPOCH ?= $(or $(lastword $(STAMP)),0)

# ---- flags ---------------------------------------------------------------------------------------

CFLAGS ?= -O2 -g
WARN := -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes \
  -Wmissing-prototypes
override CFLAGS += -std=c11 -D_GNU_SOURCE -DRETAIN_VERSION='"$(VERSION)"' -I. -ffp-contract=off \
  -fno-math-errno -ffile-prefix-map=$(CURDIR)=. $(TARGET_FLAGS) $(WARN) $(if $(SAN),$(SANITIZE) -fno-omit-frame-pointer)
PKG_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PACKAGES) 2>/dev/null)
LIBS := $(shell $(PKG_CONFIG) --libs $(PACKAGES) 2>/dev/null) -lm -lpthread
LDFLAGS += -Wl,-z,relro,-z,now $(if $(SAN),$(SANITIZE))

# The instruction set is the file's name (kernels/cpu).
ISA_avx2 := -mavx2 -mfma -mf16c
ISA_avx512 := $(ISA_avx2) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni
ISA_dotprod := -march=armv8.2-a+dotprod
ISA_i8mm := -march=armv8.2-a+dotprod+i8mm
FOREIGN := $(if $(filter x86_64,$(ARCH)),,%/avx2.c %/avx512.c) \
  $(if $(filter aarch64,$(ARCH)),,%/neon.c %/dotprod.c %/i8mm.c)
isa_flags = $(ISA_$(patsubst kernels/cpu/%.c,%,$(filter kernels/cpu/%,$(1))))

# ---- sources -------------------------------------------------------------------------------------

ROOMS := base $(addprefix runtime/,model token cache cuda forward session) kernels kernels/cpu kernels/cuda store cli \
  $(addprefix quant/,convert heads eval) $(addprefix tui/,term chat view)
SRC := $(filter-out $(FOREIGN),$(foreach d,$(ROOMS),$(sort $(wildcard $(d)/*.c))))
OBJ := $(SRC:%.c=$(B)/%.o)
DEMO := quant/demo/retain-demo.gguf quant/demo/retain-demo-heads.gguf

UNIT := $(sort $(wildcard tests/unit/test_*.c))
KERN := $(sort $(wildcard tests/kern/test_*.c))
FAULT := $(sort $(wildcard tests/fault/test_*.c))
FUZZERS := $(sort $(wildcard tests/fuzz/fuzz_*.c))
TUI := $(sort $(wildcard tests/tui/test_*.c))
SCRIPTS := $(sort $(wildcard tests/cli/test_*.sh))
EMU_SCRIPTS := $(if $(HAVE_CXX),$(sort $(wildcard tests/emu/test_*.sh)))
TMUX := $(sort $(wildcard tests/tui/tmux_*.sh))
EMU := $(if $(HAVE_CXX),$(sort $(wildcard tests/emu/test_*.c)))
programs = $(1:%.c=$(B)/%)
BENCHES := $(call programs,$(sort $(wildcard tests/*/bench_*.c)))

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2))

.PHONY: all test test-unit test-kern test-emu test-tui test-fault test-cli test-cross here cuda-report check bench \
  bench-count format info install \
  clean fuzz fuzz-run FORCE
.DELETE_ON_ERROR:
.SECONDARY:

all: $(B)/retain

$(B)/retain: $(B)/main.o $(B)/libretain.a
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/libretain.a: $(OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) qcs $@ $^

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS) $(PKG_CFLAGS) $(call isa_flags,$<) -MMD -MP -c -o $@ $<

# loops over keys: gcc 12 compares several at once from here on
$(B)/runtime/cache/evict.o $(B)/runtime/forward/score.o: private CFLAGS += -O3

$(B)/runtime/model/demo.o: $(DEMO)

# Device code: PTX of each file, joined and lowered for CUDA 12 drivers, then a cubin per target.
# Not per build folder: it is the same for all flags.
CU := build/cuda
CU_HEADERS := $(wildcard kernels/cuda/*.cuh) kernels/cuda/args.h
CU_FLAGS := -std=c++17 -fmad=false -I.
PTX := $(patsubst kernels/cuda/%.cu,$(CU)/%.ptx,$(sort $(wildcard kernels/cuda/*.cu)))
CUBINS := $(if $(filter 0,$(CUDA)),,$(SM:%=$(CU)/sm_%.cubin) $(CU)/device.ptx)

$(PTX): $(CU)/%.ptx: kernels/cuda/%.cu $(CU_HEADERS)
	@mkdir -p $(@D)
	$(call say,PTX,$<)
	$(Q)$(NVCC) $(CU_FLAGS) -ptx -arch=compute_80 -o $@ $<

$(CU)/device.ptx: kernels/cuda/lower.awk $(PTX)
	$(Q)awk -f $^ > $@

$(CU)/sm_%.cubin: $(CU)/device.ptx
	$(call say,PTXAS,$@)
	$(Q)$(dir $(NVCC))ptxas -arch=sm_$* -o $@ $<

$(B)/kernels/cuda/images.o: $(CUBINS) $(B)/cuda.flags
$(B)/kernels/cuda/images.o: override CFLAGS += $(if $(CUBINS),-DCUDA_DIR='"$(CU)"' \
  '-DCUDA_IMAGES(X)=$(foreach s,$(SM),X($s))')

$(B)/cuda.flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CUBINS)' | cmp -s - $@ || echo '$(CUBINS)' > $@

# What `retain --version` tells about this build.
VERSIONS = $(foreach p,$(PACKAGES),$(p)-$(or $(shell $(PKG_CONFIG) --modversion $(p) 2>/dev/null),MISSING))
FACTS = commit    $(COMMIT)\ntarget    $(or $(CROSS),$(ARCH))\ncompiler  $(notdir $(CC))-$(shell $(CC) -dumpfullversion)\nlibraries $(VERSIONS)

$(B)/facts.h: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '#define RETAIN_FACTS "$(FACTS)"' | cmp -s - $@ || \
	  printf '%s\n' '#define RETAIN_FACTS "$(FACTS)"' > $@

$(B)/main.o: $(B)/facts.h
$(B)/main.o: private PKG_CFLAGS += -I$(B)

# Rebuild everything when the compiler or its flags change.
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(CFLAGS) $(PKG_CFLAGS)' | cmp -s - $@ || echo '$(CC) $(CFLAGS) $(PKG_CFLAGS)' > $@

# ---- tests ---------------------------------------------------------------------------------------

$(B)/tests/tui/test_%: $(B)/tests/tui/test_%.o $(B)/tests/tui/fake_session.o $(B)/libretain.a
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS) -lcmocka

# What test_sensors takes for the driver's library.
$(B)/tests/tui/test_sensors: | $(B)/tests/tui/fake_nvml.so
$(B)/tests/tui/fake_nvml.so: tests/tui/fake_nvml.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS) -fPIC -shared -o $@ $<

$(B)/tests/tui_fake: $(B)/tests/tui/tui_fake.o $(B)/tests/tui/fake_session.o $(B)/libretain.a
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)

# Device code compiled for the CPU, see tests/emu/emu.h. -O1: time goes into fibers and fragments, not
# into kernels; and g++ 12.2 -O2 misplaces attend_decode's output channels, see quant/eval/notes/device.md.
EMU_CU := $(patsubst %.cu,$(B)/emu/%.o,$(wildcard kernels/cuda/*.cu tests/emu/*.cu))
EMU_OBJ := $(EMU_CU) $(B)/tests/emu/emu.o

$(EMU_CU): $(B)/emu/%.o: %.cu $(B)/flags
	@mkdir -p $(@D)
	$(call say,EMU,$<)
	$(Q)$(CXX) -x c++ -std=c++17 -O1 -g -Wall -Wextra -Wno-unused-function -fno-exceptions \
	  -fno-rtti -fPIC -ffp-contract=off -I. -Itests/emu $(if $(SAN),$(SANITIZE)) -MMD -MP -c -o $@ $<

# The emulator as a CUDA driver, and the program with device code that only this driver takes. pic/:
# what else it needs, for a shared library.
EMU_DRIVER := $(B)/tests/emu/libcuda.so.1
EMU_PIC := $(patsubst %,$(B)/pic/%.o,tests/emu/emu tests/emu/driver kernels/pack)

$(EMU_PIC): $(B)/pic/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS) -fPIC -MMD -MP -c -o $@ $<

$(EMU_DRIVER): $(EMU_CU) $(EMU_PIC)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-soname,$(@F) -Wl,-Bsymbolic -o $@ $^ -lm

$(B)/tests/emu/retain: $(B)/main.o $(B)/tests/emu/images.o $(B)/libretain.a
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/tests/emu/test_backend: %: %.o $(B)/tests/emu/images.o $(B)/libretain.a | $(EMU_DRIVER)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN' -o $@ $^ $(LIBS) -lcmocka

$(filter-out %/test_backend,$(call programs,$(EMU))): %: %.o $(EMU_OBJ) $(B)/libretain.a
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS) -lcmocka

$(B)/tests/%: $(B)/tests/%.o $(B)/libretain.a
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS) -lcmocka

# The program that the scripts start.
PROGRAM := $(B)/retain

# For another architecture: unit and kernel tests, and what the program says, through qemu, which is
# a hundred times slower at floats. The three longest tests would take half of the time.
ifneq ($(CROSS),)
UNIT := $(filter-out $(patsubst %,tests/unit/test_%.c,session flat retention),$(UNIT))
EMU :=
EMU_SCRIPTS :=
FAULT :=
TUI :=
TMUX :=
SCRIPTS := $(sort $(wildcard tests/cross/test_*.sh))
PROGRAM := $(B)/run/retain
test test-cli: $(PROGRAM) $(B)/retain here
export HOST_RETAIN := build/retain
endif

$(B)/run/retain:
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nexec $(RUN) "$$(dirname "$$0")/../retain" "$$@"\n' >$@ && chmod +x $@
here:
	@$(MAKE) -s CROSS= all

# The same where the tools for it are.
test-cross:
	@if command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null && \
	  [ -e /usr/lib/aarch64-linux-gnu/pkgconfig/cmocka.pc ]; then $(MAKE) -s CROSS=aarch64 test; else \
	  echo 'skip: no tools for 64-bit ARM, see cross/boards.md'; echo '0 passed, 0 failed, 1 skipped'; fi

run_tests = CUDA_VISIBLE_DEVICES= PTX='$(filter %.ptx,$(CUBINS))' RUN='$(RUN)' RETAIN_TEST_DATA='$(TEST_DATA)' RETAIN='$(PROGRAM)' EMU='$(B)/tests/emu' \
  FAKE='$(B)/tests/tui_fake' tests/run.sh

include tests/ptx/ptx.mk

PROGRAMS := $(call programs,$(UNIT) $(KERN) $(EMU) $(FAULT) $(TUI)) $(PTX_PROGRAMS)
# Kernel tests of the emulator, linked to a real GPU, and the model's. They skip where there is none.
GPU := $(if $(SAN)$(CROSS),,$(B)/tests/gpu/test_model $(addprefix $(B)/tests/gpu/test_,attend cache linear sample))
$(filter-out %/test_model,$(GPU)): $(B)/tests/gpu/%: $(B)/tests/emu/%.o $(B)/tests/gpu/device.o $(B)/libretain.a
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -Wl,--wrap=posix_memalign,--wrap=free -o $@ $^ $(LIBS) -lcmocka

$(B)/tests/gpu/speed.o: override CFLAGS += -DRATE_PTX='"$(CU)/rate.ptx"'
$(CU)/rate.ptx: tests/gpu/rate.cu kernels/cuda/device.cuh
	@mkdir -p $(@D)
	$(call say,PTX,$<)
	$(Q)$(NVCC) $(CU_FLAGS) -ptx -arch=compute_80 -o $@.new $< && awk -f kernels/cuda/lower.awk $@.new > $@ && rm $@.new

EMU_PROGRAM := $(if $(EMU),$(B)/tests/emu/retain $(EMU_DRIVER))
FAKE := $(if $(TMUX),$(B)/tests/tui_fake)

test: all $(PROGRAMS) $(FAKE) $(EMU_PROGRAM) $(GPU)
	@$(run_tests) $(PROGRAMS) $(GPU) $(SCRIPTS) $(EMU_SCRIPTS) $(PTX_SCRIPTS) $(TMUX)
test-unit: $(call programs,$(UNIT))
	@$(run_tests) $^
test-kern: $(call programs,$(KERN))
	@$(run_tests) $^
test-emu: $(call programs,$(EMU)) $(EMU_PROGRAM)
	@$(if $(EMU),$(run_tests) $(call programs,$(EMU)) $(EMU_SCRIPTS),echo 'skip: $(CXX) is missing'; echo '0 passed, 0 failed, 1 skipped')
.PHONY: test-gpu gpu
test-gpu: $(GPU)
	@tests/run.sh $^
gpu: all $(GPU) $(B)/tests/gpu/speed $(if $(CUBINS),$(CU)/rate.ptx)
test-fault: $(call programs,$(FAULT))
	@$(run_tests) $^
test-tui: all $(call programs,$(TUI)) $(FAKE)
	@$(run_tests) $(call programs,$(TUI)) $(TMUX)
test-cli: all
	@$(run_tests) $(SCRIPTS)

# make fuzz FUZZ_SECONDS=600: every fuzzer that long. Needs clang, with its libFuzzer. Inputs do not
# reach the kernels, which clang instruments for half an hour.
FUZZ_SECONDS ?= 60
ifdef FUZZ
$(B)/kernels/cpu/%.o: CFLAGS += -fno-sanitize=all -O1
endif
fuzz:
	@$(MAKE) CC=clang SAN=1 FUZZ=1 fuzz-run

$(B)/tests/fuzz/make_seeds: $(B)/tests/fuzz/make_seeds.o $(B)/libretain.a
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/tests/fuzz/fuzz_tui: $(B)/tests/fuzz/fuzz_tui.o $(B)/tests/tui/fake_session.o $(B)/libretain.a
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LIBS)

$(B)/tests/fuzz/fuzz_%: $(B)/tests/fuzz/fuzz_%.o $(B)/libretain.a
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LIBS)

fuzz-run: $(call programs,$(FUZZERS)) $(B)/tests/fuzz/make_seeds
	@RETAIN_TEST_DATA='$(TEST_DATA)' tests/fuzz/run.sh $(B) $(FUZZ_SECONDS) $(call programs,$(FUZZERS))

check:
	@tests/check_layers.sh
	@if command -v clang-format >/dev/null; then \
	  clang-format --dry-run -Werror $$(git ls-files '*.c' '*.h') && echo 'format: ok'; \
	else echo 'skip: clang-format is missing'; fi

# Registers and spills of every kernel for every target.
cuda-report: $(if $(filter 0,$(CUDA)),,$(CU)/device.ptx)
	@$(if $^,PTXAS='$(dir $(NVCC))ptxas' PTX='$<' tests/emu/cuda_report.sh,echo 'skip: nvcc is missing or CUDA=0')

bench: all $(BENCHES)
	@for b in $(BENCHES); do $$b || exit 1; done
	@$(B)/retain bench

# Instructions of the hot kernels, for machines whose clock is noisy.
bench-count: $(B)/tests/kern/bench_kernels
	@tests/kern/count.sh $<

format:
	clang-format -i $$(git ls-files '*.c' '*.h')

# The manual page, from the program's own tables; test_manual.sh holds it to them.
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

include cross/packages.mk

info:
	@echo 'retain $(VERSION) for $(ARCH) into $(B)'
	@echo 'compiler: $(shell $(CC) --version | head -n 1)'
	@echo 'packages: $(VERSIONS)'
	@echo 'cmocka: $(or $(shell $(PKG_CONFIG) --modversion cmocka 2>/dev/null),MISSING (needed by make test))'
	@echo 'nvcc: $(if $(filter 0,$(CUDA)),none: no device code,$(shell $(NVCC) --version | sed -n 's/.*release \([^,]*\),.*/\1/p') ($(NVCC)), for$(SM:%= sm_%) and PTX)'
	@echo 'emulator: $(or $(HAVE_CXX),$(CXX) is MISSING (make test-emu is skipped))'
	@echo 'tmux: $(or $(shell command -v tmux),MISSING (screen tests are skipped))'
	@echo 'test data: $(or $(wildcard $(TEST_DATA)),none (tests that need it are skipped))'

clean:
	rm -rf build

-include $(OBJ:.o=.d) $(EMU_PIC:.o=.d) $(B)/main.d $(wildcard $(B)/tests/*/*.d) $(EMU_OBJ:.o=.d)
