# make gpu: one file, build/gpu.tar.gz, of all that the run on a GPU starts (run.sh, again.sh), with all
# libraries but libc. make gpu-folder: the folder in it, without the variants of kernels, which take nvcc
# a minute and a half.

# Kernel tests of the emulator, linked to a real GPU, and the model's. They skip where there is none.
GPU_DIR := $(B)/tests/gpu
GPU := $(if $(SAN)$(CROSS),,$(addprefix $(GPU_DIR)/test_,model attend cache experts floats linear sample))
# make test leaves them out without nvcc (test_translate.sh says so), and without a GPU all but one, which says so.
GPU_TESTS := $(if $(CUBINS),$(if $(wildcard /dev/nvidia* /dev/nvhost* /dev/dxg),$(GPU),$(firstword $(GPU))))
GPU_PROGRAMS := $(GPU) $(addprefix $(GPU_DIR)/,speed whole retain)
GPU_LD = $(CC) $(LDFLAGS) -s -Wl,-rpath,'$$ORIGIN/lib' -o $@
$(GPU_DIR)/%.o: private override CFLAGS += -Werror

# One copy of the device code for all programs.
$(GPU_DIR)/images.o: private override CFLAGS += $(CUDA_LIST)
$(GPU_DIR)/images.o: $(B)/cuda.flags

$(filter-out %/test_model,$(GPU)): $(GPU_DIR)/%: $(B)/tests/emu/%.o $(GPU_DIR)/device.o $(GPU_DIR)/images.o $(B)/libretain.a $(HARNESS)
	$(call say,LD,$@)
	$(Q)$(GPU_LD) -Wl,--wrap=posix_memalign,--wrap=free $^ $(LIBS) -lcmocka

$(GPU_DIR)/test_model: %: %.o $(GPU_DIR)/images.o $(B)/libretain.a $(HARNESS)
	$(call say,LD,$@)
	$(Q)$(GPU_LD) $^ $(LIBS) -lcmocka

$(GPU_DIR)/speed: $(addprefix $(GPU_DIR)/,speed.o ceilings.o timed.o time_matrices.o time_attention.o time_cache.o)
$(GPU_DIR)/whole: $(addprefix $(GPU_DIR)/,whole.o ceilings.o)
$(GPU_DIR)/retain: $(B)/main.o
$(addprefix $(GPU_DIR)/,speed whole retain): $(GPU_DIR)/images.o $(B)/libretain.a
	$(call say,LD,$@)
	$(Q)$(GPU_LD) $(filter %.o,$^) $(B)/libretain.a $(LIBS)

GPU_PTX = $(NVCC) $(CU_FLAGS) -ptx -arch=compute_80 -o $@.new $(1) && awk -f kernels/cuda/lower.awk $@.new > $@ && rm $@.new

$(GPU_DIR)/rate.ptx: tests/gpu/rate.cu tests/gpu/rate.h kernels/cuda/device.cuh kernels/cuda/lower.awk
	@mkdir -p $(@D)
	$(call say,PTX,$<)
	$(Q)$(call GPU_PTX,$<)

# make gpu VARIANTS=FILE.MACRO.VALUE…: kernels with other numbers than the program's, timed beside those.
GPU_VARIANTS := $(if $(CUBINS),$(VARIANTS:%=$(GPU_DIR)/variants/%.ptx))

$(GPU_VARIANTS): $(GPU_DIR)/variants/%.ptx: $(wildcard kernels/cuda/*.cu) $(CU_HEADERS) kernels/cuda/lower.awk
	@mkdir -p $(@D)
	$(call say,PTX,$*)
	$(Q)set -- $(subst ., ,$*); $(call GPU_PTX,-D$$2=$$3 kernels/cuda/$$1.cu)

# The run on a GPU, tried on the emulated driver; without nvcc the program has nothing to run there.
GPU_SCRIPTS := $(if $(CUBINS),$(if $(EMU),$(if $(GPU),tests/gpu/test_run.sh)))

.PHONY: gpu gpu-folder
gpu: gpu-folder $(GPU_VARIANTS)
	$(call say,GZIP,$(B)/gpu.tar.gz)
	$(Q)tar -C $(B)/tests -c --exclude='*.[od]' --owner=0 --group=0 gpu | gzip -9n >$(B)/gpu.tar.gz
	@ls -l $(B)/gpu.tar.gz
gpu-folder: $(GPU_PROGRAMS) build/golden/make_models $(CUBINS) $(if $(CUBINS),$(GPU_DIR)/rate.ptx)
	@mkdir -p $(GPU_DIR)/lib $(GPU_DIR)/images
	@$(foreach s,$(SM),cp $(CU)/sm_$(s).cubin $(GPU_DIR)/images/sm_$(s);) { cat $(CU)/device.ptx; printf '\0'; } >$(GPU_DIR)/images/ptx
	@cp $(addprefix tests/gpu/,run.sh again.sh resume.sh counters.sh steps.sh recipe.sh ceilings.py) kernels/cuda/report.txt \
	  build/golden/make_models $(GPU_DIR)
	@ldd $(GPU_PROGRAMS) | awk '$$3 ~ /^\// && !index($$3, "/$(GPU_DIR)/") && $$1 !~ /^(libc|libm|libpthread|libdl)\.so/ { print $$3 }' | \
	  sort -u | xargs -I{} cp -L {} $(GPU_DIR)/lib
