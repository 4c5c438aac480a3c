# Releases. make dist: the source. make portable: a folder for any Linux of this
# architecture with glibc 2.34, libraries inside. make deb: a package for Debian 12 and 13, Ubuntu 22.04
# and 24.04. All with CROSS= too, and each the same bytes from the same commit (make check-reproducible).
#
# make check-symbols, check-baseline, check-cubins, check-reproducible, check-install test these
# promises.

OUT := $(B)/packages
NAME := retain-$(VERSION)
PORTABLE := $(NAME)-linux-$(or $(CROSS),$(ARCH))
DEB_ARCH := $(or $(if $(filter x86_64,$(ARCH)),amd64),$(if $(filter aarch64,$(ARCH)),arm64),$(ARCH))
DEB := $(OUT)/retain_$(VERSION)-1_$(DEB_ARCH).deb

.PHONY: dist portable deb check-symbols check-baseline check-cubins check-reproducible check-install

# ---- source --------------------------------------------------------------------------------------

dist: $(OUT)/$(NAME).tar.gz

$(OUT)/$(NAME).tar.gz: FORCE
	@mkdir -p $(@D)
	$(call say,TAR,$@)
	$(Q)git archive --prefix=$(NAME)/ HEAD | gzip -9n > $@

# ---- portable ------------------------------------------------------------------------------------

# Libraries that the distribution has as archives are linked into the program, the others are copied
# into the folder.
archive = $(filter /%,$(shell $(CC) -print-file-name=lib$(1:-l%=%).a))
LIBC := -lm -lpthread -pthread -ldl
PORTABLE_LIBS = $(foreach l,$(filter-out $(LIBC),$(LIBS)),$(or $(if $(filter -l%,$(l)),$(call archive,$(l))),$(l))) -lm -lpthread

$(B)/portable/retain: $(MAIN) $(B)/libretain.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN/../lib/retain' -o $@ $^ $(PORTABLE_LIBS)

portable: $(OUT)/$(PORTABLE).tar.gz

$(OUT)/$(PORTABLE).tar.gz: $(B)/portable/retain
	@mkdir -p $(@D) && rm -rf $(OUT)/$(PORTABLE)
	@$(MAKE) -s install BINARY=$< DESTDIR=$(abspath $(OUT))/ PREFIX=$(PORTABLE) STRIP_INSTALLED=1
	@cross/portable.sh $< $(OUT)/$(PORTABLE) '$(CC)' '$(OBJDUMP)' $(filter %.a,$(PORTABLE_LIBS))
	$(call say,TAR,$@)
	$(Q)tar -C $(OUT) --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rw,go=u,go-w \
	  --mtime=@$(SOURCE_DATE_EPOCH) -cf - $(PORTABLE) | gzip -9n > $@

# ---- Debian --------------------------------------------------------------------------------------

deb: $(DEB)

# The libraries whose file names differ between the distributions are linked into the program.
RENAMED := -lutf8proc
DEB_LIBS = $(foreach l,$(LIBS),$(or $(if $(filter $(RENAMED),$(l)),$(call archive,$(l))),$(l)))

$(B)/deb/retain: $(MAIN) $(B)/libretain.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(DEB_LIBS)

$(DEB): $(B)/deb/retain cross/deb.sh cross/licenses.sh
	@mkdir -p $(@D) && rm -rf $(OUT)/deb
	@$(MAKE) -s install BINARY=$< DESTDIR=$(abspath $(OUT))/deb PREFIX=/usr STRIP_INSTALLED=1 \
	  ZSH_COMPLETIONS=$(abspath $(OUT))/deb/usr/share/zsh/vendor-completions
	$(call say,DEB,$@)
	$(Q)cross/deb.sh $(OUT)/deb $(VERSION)-1 $(DEB_ARCH) $@ $(filter %.a,$(DEB_LIBS))

# ---- promises ------------------------------------------------------------------------------------

check-symbols: $(B)/deb/retain $(B)/portable/retain
	@OBJDUMP='$(OBJDUMP)' tests/check_symbols.sh $(or $(GLIBC_MAX),2.35) $^

check-baseline: all
	@tests/check_baseline.sh $(B)

check-cubins: $(CUBINS)
	@$(if $(CUBINS),tests/check_cubins.sh $(filter %.cubin,$^),echo 'skip: nvcc is missing or CUDA=0')

check-reproducible:
	@MAKE='$(MAKE)' CROSS='$(CROSS)' tests/check_reproducible.sh

check-install: deb portable
	@SUITE='$(SUITE)' tests/check_install.sh $(DEB) $(OUT)/$(PORTABLE).tar.gz
