# make test, and by part test-unit, test-kern, test-emu, test-tui, test-fault, test-cli, test-gpu,
# test-cross; make fuzz; make bench, bench-count, cuda-report.
# make T=evict: only the programs test_evict.c and scripts test_evict.sh, tmux_evict.sh, with all
# their output; T=unit/chat where two folders have one. ARGS=nan: only test functions with that in
# their name.
# TEST_DATA: an optional folder of public models for further tests; see CONTRIBUTING.md.

UNIT := $(sort $(wildcard tests/unit/test_*.c))
KERN := $(sort $(wildcard tests/kern/test_*.c))
FAULT := $(filter-out $(if $(SAN),%/test_calls.c %/test_power.c),$(sort $(wildcard tests/fault/test_*.c)))
FUZZERS := $(sort $(wildcard tests/fuzz/fuzz_*.c))
TUI := $(sort $(wildcard tests/tui/test_*.c))
SCRIPTS := $(sort $(wildcard tests/cli/test_*.sh))
EMU_SCRIPTS := $(if $(HAVE_CXX),$(sort $(wildcard tests/emu/test_*.sh)))
TMUX := $(sort $(wildcard tests/tui/tmux_*.sh))
EMU := $(if $(HAVE_CXX),$(sort $(wildcard tests/emu/test_*.c)))
VNNI := $(if $(CROSS),,$(sort $(filter avx_vnni avx512_vnni,$(file </proc/cpuinfo))))
BENCHES := $(call programs,$(sort $(wildcard tests/*/bench_*.c)))
programs = $(1:%.c=$(B)/%)

.PHONY: real test test-unit test-kern test-emu test-tui test-fault test-cli test-cross test-gpu here one check-cuda fuzz \
  fuzz-run soak crowd hostile hostile-run calls bench bench-count cuda-report

# ---- linking -------------------------------------------------------------------------------------

# Callbacks of tests often need none of their arguments.
$(foreach p,tests/%.o tests/%.so pic/tests/%.o,$(B)/$(p)): private override CFLAGS += -Wno-unused-parameter

# Most of a test's time is spent in the program's code, so optimizing the test itself only takes time; and
# without debug information a fifth of the bytes are linked: for gdb, make debug T=…
ifeq ($(SAN)$(DEBUG)$(FUZZ),)
$(foreach d,unit/% tui/% fault/% cli/% emu/test_% ptx/%,$(B)/tests/$(d).o): private override CFLAGS += -O0 -g0 -U_FORTIFY_SOURCE
$(B)/tests/%: private override LDFLAGS += -Wl,-S
endif

# Linked to every test program: main, which the programs without tests bring themselves; a driver's
# name in place of 10 MB of device code; to those whose tiny models have no units of 4 bits, a
# replacement for the measurement of keys, and to some for the hashing of passphrases.
HARNESS := $(B)/tests/libtest.a
$(HARNESS): $(B)/tests/test.o $(B)/tests/unmeasured.o $(B)/tests/hashed.o $(B)/tests/emu/images.o
	$(Q)rm -f $@ && $(AR) qcs $@ $^

define link
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $(1) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS) -lcmocka
endef

$(B)/tests/tui/test_%: $(B)/tests/tui/test_%.o $(B)/tests/tui/scripted.o $(B)/libretain.a $(HARNESS)
	$(call link)

$(addprefix %/test_,session_lost session_past session_recall): private override LDFLAGS += -Wl,--wrap=crypto_pwhash
$(addprefix %/test_,failures families forward layers mtp sessions speculate trainer): private override LDFLAGS += -Wl,--wrap=centre_open

# Their answers are scripted.
WRAPPED := sampler_draw session_say session_replace session_regenerate session_continue session_open engine_open model_list_read model_find
$(B)/tests/tui/test_% $(B)/tests/tui_fake $(B)/tests/fuzz/fuzz_tui: private override LDFLAGS += $(WRAPPED:%=-Wl,--wrap=%)

# test_sensors loads this as the driver's library.
$(B)/tests/tui/test_sensors: | $(B)/tests/tui/fake_nvml.so
$(B)/tests/tui/fake_nvml.so: tests/tui/fake_nvml.c $(B)/flags
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -fPIC -shared -o $@ $<

# test_calls and test_power load these into the program; with sanitizers they can't.
$(B)/tests/fault/test_calls: | $(B)/tests/fault/failing.so $(B)/retain $(B)/tests/hub
$(B)/tests/fault/test_power: | $(B)/tests/fault/recording.so $(B)/retain
$(B)/tests/fault/failing.so: tests/fault/failing.h tests/fault/preload.h
$(B)/tests/fault/recording.so: tests/fault/recording.h tests/fault/preload.h
$(B)/tests/fault/%.so: tests/fault/%.c $(B)/flags
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -fPIC -shared -o $@ $< -ldl

$(B)/tests/tui_fake: $(B)/tests/tui/tui_fake.o $(B)/tests/tui/scripted.o $(B)/libretain.a $(HARNESS)
	$(call link)

# Takes a quarter of a minute to compile: only where test_vnni runs it.
ifeq ($(VNNI),avx512_vnni)
$(B)/tests/kern/test_vnni: $(B)/tests/kern/evex_vnni.o
$(B)/tests/kern/evex_vnni.o: private CFLAGS += $(ISA_avx2) -mavx512vl -mavx512vnni -O1 -g0
endif

# The hub that test_pull.sh downloads from, the writer of its models, the program without libcurl.
PULL := $(B)/tests/hub $(B)/tests/make_model $(B)/tests/retain_offline
$(addprefix $(B)/tests/,hub make_model logits): $(B)/tests/%: $(B)/tests/cli/%.o $(B)/libretain.a $(HARNESS)
	$(call link)

$(B)/tests/retain_offline: $(B)/main.o $(B)/cli/pull/http_none.o $(B)/libretain.a $(HARNESS)
	$(call link)

# Device code compiled for the CPU, see tests/emu/emu.h. -O1: the time is spent on fibers and
# fragments, not on kernels; and g++ 12.2 -O2 misplaces attend_decode's output channels, see
# quant/eval/notes/device.md.
EMU_CU := $(patsubst %.cu,$(B)/emu/%.o,$(wildcard kernels/cuda/*.cu tests/emu/*.cu))
EMU_OBJ := $(EMU_CU) $(B)/pic/tests/emu/emu.o

$(EMU_CU): $(B)/emu/%.o: %.cu $(B)/flags
	$(call say,EMU,$<)
	$(Q)$(CXX) -x c++ -std=c++17 -O1 -g1 -Wall -Wextra -Wno-unused-function -fno-exceptions \
	  -fno-rtti -fPIC -ffp-contract=off $(PREFIX_MAP) -I. -Itests/emu $(if $(SAN),$(SANITIZE)) -MMD -MP -c -o $@ $<

# The emulator as a CUDA driver, and the program with device code that only this driver takes. pic/:
# its other objects, for a shared library.
EMU_DRIVER := $(B)/tests/emu/libcuda.so.1
EMU_PIC := $(patsubst %,$(B)/pic/%.o,tests/emu/emu tests/emu/driver kernels/pack)

$(EMU_PIC): $(B)/pic/%.o: %.c $(B)/flags
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(PREFIX_MAP) -fPIC -MMD -MP -c -o $@ $<

# Its matrix products are loops over numbers, and each operation of a lane switches stacks.
$(B)/pic/tests/emu/emu.o: private override CFLAGS += -O3 -fno-stack-protector -fno-stack-clash-protection

$(EMU_DRIVER): $(EMU_CU) $(EMU_PIC)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-soname,$(@F) -Wl,-Bsymbolic -o $@ $^ -lm

$(B)/tests/emu/retain: $(B)/main.o $(B)/libretain.a $(HARNESS)
	$(call link)

%/test_pool: private override LDFLAGS += -Wl,--wrap=clock_gettime,--wrap=system_n_running
%/test_heads_train: private override LDFLAGS += -Wl,--wrap=report_interrupted
%/test_backend: private override LDFLAGS += -Wl,--wrap=madvise
%/test_trainer: private override LDFLAGS += -Wl,--wrap=mmap,--wrap=system_available_bytes
EMU_BACKEND := $(addprefix $(B)/tests/emu/test_,backend failures layers mtp policies sessions speculate trainer)
$(EMU_BACKEND): %: %.o $(B)/libretain.a $(HARNESS) | $(EMU_DRIVER)
	$(call link,-Wl$(comma)-rpath$(comma)'$$ORIGIN')

$(filter-out $(EMU_BACKEND),$(call programs,$(EMU))): %: %.o $(EMU_OBJ) $(B)/libretain.a $(HARNESS)
	$(call link)

$(B)/tests/%: $(B)/tests/%.o $(B)/libretain.a $(HARNESS)
	$(call link)

# The program that the scripts run.
PROGRAM := $(B)/retain

# For another architecture: unit and kernel tests, and the program's output, through qemu, which is
# a hundred times slower at floats. The four longest tests would take half of the time.
ifneq ($(CROSS),)
UNIT := $(filter-out $(patsubst %,tests/unit/test_%.c,session session_recall flat retention),$(UNIT))
EMU :=
EMU_SCRIPTS :=
FAULT :=
TUI :=
TMUX :=
SCRIPTS := $(sort $(wildcard tests/cross/test_*.sh))
PROGRAM := $(B)/run/retain
test test-cli: $(PROGRAM) $(B)/retain here
export HOST_RETAIN := build/retain
export OBJDUMP
endif

$(B)/run/retain:
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nexec $(RUN) "$$(dirname "$$0")/../retain" "$$@"\n' >$@ && chmod +x $@
here:
	@$(MAKE) -s CROSS= all

# The same if the tools for it are installed.
test-cross:
	@if command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null && \
	  [ -e /usr/lib/aarch64-linux-gnu/pkgconfig/cmocka.pc ]; then $(MAKE) -s CROSS=aarch64 test; else \
	  echo 'skip: no tools for 64-bit ARM, see cross/boards.md'; echo '0 passed, 0 failed, 1 skipped'; fi

test_environment = export TSAN_OPTIONS=die_after_fork=0 CUDA_VISIBLE_DEVICES= TARGET='$(CROSS)' PTX='$(filter %.ptx,$(CUBINS))' RUN='$(RUN)' RETAIN_TEST_DATA='$(TEST_DATA)' RETAIN='$(PROGRAM)' \
  EMU='$(B)/tests/emu' PULL='$(B)/tests' FAKE='$(B)/tests/tui_fake'
run_tests = $(test_environment); tests/run.sh

include tests/ptx/ptx.mk

# make T=…: the programs and scripts to run, and their prerequisites.
SOURCES = tests/$(if $(findstring /,$(T)),$(dir $(T)),*/)
ONE = $(call programs,$(wildcard $(SOURCES)test_$(notdir $(T)).c))
ONE_SCRIPTS = $(wildcard $(foreach p,test tmux,$(SOURCES)$(p)_$(notdir $(T)).sh))
one: $(ONE) $(if $(ONE_SCRIPTS),all $(B)/tests/tui_fake $(PULL))
	@$(if $(ONE)$(ONE_SCRIPTS),,echo 'T=$(T): no tests/*/test_$(notdir $(T)).c, test_$(notdir $(T)).sh or tmux_$(notdir $(T)).sh' >&2; exit 1)
	@$(test_environment); for t in $(ONE) $(ONE_SCRIPTS); do echo "$$t"; case $$t in *.sh) ;; *) t="$(RUN) $$t" ;; esac; $$t $(ARGS) || exit 1; done

PROGRAMS := $(call programs,$(FAULT) $(EMU) $(UNIT) $(KERN) $(TUI))
include tests/gpu/gpu.mk

EMU_PROGRAM := $(if $(EMU),$(B)/tests/emu/retain $(EMU_DRIVER))
FAKE := $(if $(TMUX),$(B)/tests/tui_fake)
one: $(if $(filter tests/emu/% tests/gpu/%,$(ONE_SCRIPTS)),$(EMU_PROGRAM)) $(if $(filter tests/gpu/%,$(ONE_SCRIPTS)),gpu-folder)

# The longest first, so that no processor waits for the last one; the hub and the terminals beside them.
WAITING := $(TMUX) $(filter %/test_bounds.sh %/test_pull.sh,$(SCRIPTS))
test: all $(PTX_PROGRAMS) $(PROGRAMS) $(FAKE) $(if $(CROSS),,$(PULL)) $(EMU_PROGRAM) $(GPU_TESTS) $(if $(GPU_SCRIPTS),gpu-folder)
	@WAITING='$(WAITING)'; export WAITING; $(run_tests) $(EMU_SCRIPTS) $(GPU_SCRIPTS) $(call programs,$(FAULT)) \
	  $(filter-out $(WAITING),$(SCRIPTS)) $(call programs,$(EMU) $(KERN) $(UNIT) $(TUI)) $(PTX_PROGRAMS) $(PTX_SCRIPTS) $(GPU_TESTS)
test-unit: $(call programs,$(UNIT))
	@$(run_tests) $^
test-kern: $(call programs,$(KERN))
	@$(run_tests) $^
test-emu: $(call programs,$(EMU)) $(EMU_PROGRAM)
	@$(if $(EMU),$(run_tests) $(call programs,$(EMU)) $(EMU_SCRIPTS),echo 'skip: $(CXX) is missing'; echo '0 passed, 0 failed, 1 skipped')
test-gpu: $(GPU) $(if $(GPU_SCRIPTS),gpu-folder $(EMU_PROGRAM))
	@$(test_environment); unset CUDA_VISIBLE_DEVICES; tests/run.sh $(GPU) $(GPU_SCRIPTS)
# One chat for SOAK_SECONDS while other commands use its database.
SOAK_SECONDS ?= 1200
soak: all
	@tests/fault/soak.sh $(PROGRAM) $(SOAK_SECONDS)
# Eight programs with one database for CROWD_SECONDS.
CROWD_SECONDS ?= 180
crowd: all
	@tests/fault/crowd.sh $(PROGRAM) $(CROWD_SECONDS)
# HOSTILE mutated databases and exports, read by the program with sanitizers.
HOSTILE ?= 5000
hostile:
	@$(MAKE) CC=clang SAN=1 FUZZ=1 hostile-run
hostile-run: $(PROGRAM) $(B)/tests/fault/hostile
	@$(B)/tests/fault/hostile $(PROGRAM) $(HOSTILE)
# Each system call and each allocation of the commands fails once, or they are killed there.
calls: all $(B)/tests/fault/test_calls
	@$(test_environment); CALLS=0 JOBS=$${JOBS:-$$(nproc)} $(B)/tests/fault/test_calls
# The same flows as in make test, figures of llama.cpp and a long talk, with two real models.
real: all $(PULL) $(B)/tests/unit/real
	@$(if $(MODELS),,echo 'make real MODELS=FOLDER: the folder of SmolLM2 and Gemma' >&2; exit 1)
	@$(test_environment) MODELS='$(MODELS)'; tests/run.sh $(B)/tests/unit/real tests/cli/real.sh tests/tui/tmux_flow.sh && \
	  tests/fault/real_kills.sh $(PROGRAM) '$(MODELS)/SmolLM2-135M-Instruct.Q4_1.gguf' $(or $(KILLS),20)
test-fault: $(call programs,$(FAULT))
	@$(run_tests) $^
test-tui: all $(call programs,$(TUI)) $(FAKE)
	@$(run_tests) $(call programs,$(TUI)) $(TMUX)
test-cli: all $(PULL)
	@$(run_tests) $(SCRIPTS)


# ---- golden models -------------------------------------------------------------------------------

# Random models, drawn from their recipes into build/golden, for whichever target is tested.
HOST_CC ?= cc
DRAWN := $(patsubst tests/%.model,build/%.gguf,$(wildcard $(addprefix tests/golden/,families/*.model split/*.model data/random/*.model))) \
  $(patsubst tests/%.model,build/%/model.safetensors,$(wildcard tests/golden/checkpoints/*.model))

# What a family of images and text is as text: the same tensors under another name, with the shares
# of its rotation.
DRAWN += $(patsubst %,build/golden/families/%.gguf,qwen2vl qwen3vl qwen3vlmoe)
define as_text
	@mkdir -p $(@D)
	$(Q)sed 's/qwen[23]/&vl/' $< >$@.model && echo 'i32s $(1).rope.dimension_sections 6 5 5 0' >>$@.model
	$(Q)build/golden/make_models $@.model $@
endef
build/golden/families/%vl.gguf: tests/golden/families/%.model build/golden/make_models
	$(call as_text,$*vl)
build/golden/families/%vlmoe.gguf: tests/golden/families/%moe.model build/golden/make_models
	$(call as_text,$*vlmoe)

# With a vocabulary of more than one part (CUDA_TOP_PART).
DRAWN += build/golden/families/words.gguf
build/golden/families/words.gguf: tests/golden/families/llama.model build/golden/make_models
	@mkdir -p $(@D)
	$(Q)sed 's/ 300\b/ 5000/' $< >$@.model && build/golden/make_models $@.model $@

build/golden/make_models: tests/golden/make_models.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(HOST_CC) -O2 -D_GNU_SOURCE -o $@.new $< -lm && mv $@.new $@

build/golden/%.gguf: tests/golden/%.model build/golden/make_models
	@mkdir -p $(@D)
	$(Q)build/golden/make_models $< $@

build/golden/checkpoints/%/model.safetensors: tests/golden/checkpoints/%.model tests/golden/checkpoints/%.json build/golden/make_models
	@mkdir -p $(@D)
	@cp tests/golden/checkpoints/tokenizer*.json $(@D) && cp tests/golden/checkpoints/$*.json $(@D)/config.json
	$(Q)build/golden/make_models $< $@

$(PROGRAMS) $(PTX_PROGRAMS) $(PTX_LONG) $(call programs,$(FUZZERS)): | $(DRAWN)
one test test-cli test-tui test-emu real calls: $(DRAWN)

# ---- fuzzers -------------------------------------------------------------------------------------

# make fuzz FUZZ_SECONDS=600: runs every fuzzer that long. Needs clang with libFuzzer. Inputs do not
# reach the kernels, whose instrumentation would take clang half an hour.
FUZZ_SECONDS ?= 60
ifdef FUZZ
$(B)/kernels/%.o: CFLAGS += -fno-sanitize=all -O1 \
  -fno-sanitize-coverage=edge,trace-cmp,indirect-calls,inline-8bit-counters,pc-table
endif
fuzz:
	@$(MAKE) CC=clang SAN=1 FUZZ=1 fuzz-run

$(B)/tests/fuzz/fuzz_tui: $(B)/tests/tui/scripted.o
$(B)/tests/fuzz/fuzz_%: $(B)/tests/fuzz/fuzz_%.o $(B)/tests/emu/images.o $(B)/libretain.a
	$(call link,-fsanitize=fuzzer)

fuzz-run: $(call programs,$(FUZZERS)) $(B)/tests/fuzz/make_seeds
	@RETAIN_TEST_DATA='$(TEST_DATA)' tests/fuzz/run.sh $(B) $(FUZZ_SECONDS) $(call programs,$(FUZZERS))

# ---- speed ---------------------------------------------------------------------------------------

# Registers, spills and instructions per matrix instruction of every kernel for every target: as a
# table, or compared with kernels/cuda/report.txt, which is that table.
cuda-report check-cuda: $(if $(filter 0,$(CUDA)),,$(CU)/device.ptx)
	@$(if $^,PTXAS='$(dir $(NVCC))ptxas' PTX='$<' tests/emu/cuda_report.sh $(if $(filter check-cuda,$@),kernels/cuda/report.txt),echo 'skip: nvcc is missing or CUDA=0'; echo '0 passed, 0 failed, 1 skipped')

bench: all $(BENCHES)
	@for b in $(BENCHES); do $$b || exit 1; done
	@$(B)/retain bench

# Instructions of the hot kernels, for machines whose clock is noisy.
bench-count: $(B)/tests/kern/bench_kernels
	@tests/kern/count.sh $<
