# make test-ptx: the emulator's tests on the module's PTX, as functions and as a CUDA driver. ptx.awk
# makes C of it, which runs on the emulator's fibers, see ptx.h. -O0: no optimizer is between the PTX
# and its result. make test has those of single kernels; those of layers and models take minutes.
PTX_DIR := $(B)/tests/ptx
PTX_C := $(PTX_DIR)/device_1.c $(PTX_DIR)/device_2.c
PTX_OBJ := $(PTX_C:.c=.o)
PTX_KERNELS := $(PTX_OBJ) $(B)/pic/tests/emu/emu.o
PTX_PROGRAMS := $(if $(CROSS),,$(addprefix $(PTX_DIR)/test_,ptx $(if $(CUBINS),attend cache experts floats linear sample)))
PTX_LONG := $(if $(CROSS),,$(addprefix $(PTX_DIR)/test_,$(if $(CUBINS),backend layers mtp trainer)))
PTX_SCRIPTS := $(if $(CROSS),,tests/ptx/test_translate.sh)

%/ptx/device_1.c %/ptx/device_2.c: tests/ptx/ptx.awk $(CU)/device.ptx
	@mkdir -p $(@D)
	$(call say,AWK,$(PTX_C))
	$(Q)awk -v files='$(PTX_C)' -f $^

$(PTX_OBJ): %.o: %.c tests/ptx/ptx.h tests/emu/emu.h kernels/cuda/args.h kernels/cuda/list.h
	$(call say,CC,$<)
	$(Q)$(CC) -std=c11 -Werror -O0 -ffp-contract=off -fPIC -I. -c -o $@ $<

$(PTX_DIR)/test_ptx: $(PTX_DIR)/test_ptx.o $(B)/pic/tests/emu/emu.o $(B)/libretain.a $(HARNESS)
	$(call link)

$(addprefix $(PTX_DIR)/test_,attend cache experts floats linear sample): $(PTX_DIR)/%: $(B)/tests/emu/%.o $(PTX_KERNELS) $(B)/libretain.a $(HARNESS)
	$(call link)

$(PTX_DIR)/libcuda.so.1: $(PTX_OBJ) $(EMU_PIC)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-soname,$(@F) -Wl,-Bsymbolic -o $@ $^ -lm

$(PTX_LONG): $(PTX_DIR)/%: $(B)/tests/emu/%.o $(B)/libretain.a $(HARNESS) | $(PTX_DIR)/libcuda.so.1
	$(call link,-Wl$(comma)-rpath$(comma)'$$ORIGIN')

.PHONY: test-ptx
test-ptx: $(PTX_PROGRAMS) $(PTX_LONG)
	@$(run_tests) $^ $(PTX_SCRIPTS)
