# interlock: `make run` and `make test` do everything on a fresh machine;
# `make` alone only configures (when that is due) and builds.  See README.md.

PORT ?= 8080
DIR ?= ./run
B = build
PROVE = prove
TESTS = t

# Paths may hold spaces, so everything here is relative to this directory.
ifneq ($(shell case "$$(pwd)" in (*[\"\'\\\$$]*) echo odd;; esac),)
$(error there is a quote, a backslash or a dollar in the path of this checkout; move it)
endif

unexport B TESTS
INSTANCE = PORT='$(PORT)' DIR='$(DIR)' INTERLOCK_BUILD='$(B)' sh fcgi/etc/instance
AGAIN = @+$(MAKE) --no-print-directory $(if $(findstring j,$(MAKEFLAGS)),,-j$(JOBS))
JOBS := $(shell nproc)

VERSION := $(shell cat VERSION)
CONFIGURED := $(shell test -f config.mak -a ! configure -nt config.mak \
    -a ! -f config.stale && echo yes)
ifeq ($(CONFIGURED),yes)
include config.mak
endif

COMMON_SRC := $(wildcard common/*.c)
FCGI_SRC := $(wildcard fcgi/*.c)
CLI_SRC := $(wildcard fcgi/cli/*.c)
CLI_SHARED := $(wildcard fcgi/db.c fcgi/db_types.c fcgi/db_wait.c fcgi/conf.c fcgi/log.c \
    fcgi/clock.c fcgi/sig_pk.c fcgi/cert.c fcgi/outcall.c fcgi/outcall_rules.c)
UNIT_SRC := $(wildcard t/00-unit/*.c)
MODULE_SRC := $(wildcard ngx_module/*.c ngx_module/*.h ngx_module/config)

obj = $(patsubst %.c,$(B)/obj/%.o,$(1))
COMMON_OBJ := $(call obj,$(COMMON_SRC))
FCGI_OBJ := $(call obj,$(FCGI_SRC))
CLI_OBJ := $(call obj,$(CLI_SRC) $(CLI_SHARED))
UNIT := $(patsubst t/00-unit/%.c,$(B)/t/%,$(UNIT_SRC))

# What there is of the three programs and the unit tests.
PARTS = $(B)/libil.a \
    $(if $(FCGI_SRC),$(B)/interlockd) \
    $(if $(CLI_SRC),$(B)/interlock) \
    $(if $(wildcard ngx_module/config),$(B)/ngx_http_interlock_module.so)

OPTIONAL = $(if $(HAVE_OPENSSL),-DIL_HAVE_OPENSSL=1) \
    $(if $(HAVE_SQLITE),-DIL_HAVE_SQLITE=1)
DEFINES = -D_GNU_SOURCE -DIL_VERSION='"$(VERSION)"' -DIL_DATADIR='"$(datadir)"' $(OPTIONAL)
LIB_CFLAGS = $(SODIUM_CFLAGS) $(ZLIB_CFLAGS) $(JANSSON_CFLAGS) $(FCGI_CFLAGS) $(PQ_CFLAGS) \
    $(CURL_CFLAGS) $(OPENSSL_CFLAGS) $(SQLITE_CFLAGS) $(CMOCKA_CFLAGS)
COMMON_LIBS = $(SODIUM_LIBS) $(ZLIB_LIBS) $(JANSSON_LIBS) $(OPENSSL_LIBS)
SAN =
BUILD_CFLAGS = -std=gnu11 $(WARN) -fvisibility=hidden -pthread \
    $(if $(SAN),-O1 -g -fno-omit-frame-pointer $(SAN),$(CFLAGS) $(HARDENING)) \
    -ffile-prefix-map='$(CURDIR)'=. -Icommon $(LIB_CFLAGS) $(DEFINES)
BUILD_LDFLAGS = -pthread $(LDFLAGS) $(if $(SAN),$(SAN),$(LINK_HARDENING))

.PHONY: all unit run start stop status reload packages test soak sanitize \
    fuzz valgrind install clean distclean
.DELETE_ON_ERROR:
.SUFFIXES:

ifeq ($(CONFIGURED),yes)

all: $(PARTS)
unit: $(UNIT)

$(B)/obj/%.o: %.c config.mak Makefile VERSION
	@mkdir -p $(dir $@)
	@echo "  CC   $<"
	@$(CC) $(BUILD_CFLAGS) $(if $(filter common/%,$<),-fPIC,-fPIE) \
	    -MMD -MP -c -o $@ $<

$(B)/libil.a: $(COMMON_OBJ)
	@mkdir -p $(dir $@)
	@echo "  AR   $@"
	@rm -f $@ && ar rcsD $@ $^

# A program that is running is replaced by a rename, never written into.
link = echo "  LINK $@" && $(CC) $(BUILD_LDFLAGS) -o $@.new $(1) && mv -f $@.new $@

$(B)/interlockd: $(FCGI_OBJ) $(B)/libil.a
	@$(call link,$^ $(FCGI_LIBS) $(PQ_LIBS) $(CURL_LIBS) $(SQLITE_LIBS) $(COMMON_LIBS))

$(B)/interlock: $(CLI_OBJ) $(B)/libil.a
	@$(call link,$^ $(PQ_LIBS) $(CURL_LIBS) $(COMMON_LIBS))

$(UNIT): $(B)/t/%: $(B)/obj/t/00-unit/%.o $(B)/libil.a
	@mkdir -p $(dir $@)
	@$(call link,$^ $(CMOCKA_LIBS) $(COMMON_LIBS))

$(B)/ngx_http_interlock_module.so: $(MODULE_SRC) $(COMMON_SRC) \
    $(wildcard common/*.h) $(B)/libil.a fcgi/etc/build-module config.mak
	@echo "  NGX  $@"
	@NGINX_SRC='$(NGINX_SRC)' OPTIONAL='$(OPTIONAL)' SAN='$(SAN)' \
	    bash fcgi/etc/build-module $(B)

# What only make bench needs
bench-tools: $(B)/bench/load $(B)/bench/slow_flush.so

$(B)/bench/load: t/80-bench/load.c t/80-bench/load_text.c t/80-bench/load_text.h \
    config.mak Makefile
	@mkdir -p $(dir $@)
	@echo "  LINK $@"
	@$(CC) $(BUILD_CFLAGS) -fPIE $(BUILD_LDFLAGS) -o $@ $(filter %.c,$^)

$(B)/bench/slow_flush.so: t/80-bench/slow_flush.c config.mak Makefile
	@mkdir -p $(dir $@)
	@echo "  LINK $@"
	@$(CC) $(BUILD_CFLAGS) -fvisibility=default -fPIC -shared -o $@ $< -ldl

-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)

else

# Not configured yet, or configure is newer: do that first, with the options
# it had, then begin again.  One goal after the other: two makes at once would
# build the same files.
.NOTPARALLEL:
.PHONY: configured
all unit bench-tools: configured
	$(AGAIN) $@

configured:
	@eval "set -- $$(sed -n 's/^CONFIGURE_ARGS =//p' config.mak 2>/dev/null)"; \
	    sh ./configure "$$@"
	@touch config.mak

endif

# Here on goals for people.  Packages come before configure and building, so
# these run make again for those.

run start:
	@sh fcgi/etc/bring build
	$(AGAIN) all
	@exec env --default-signal=INT $(INSTANCE) $@

stop status reload:
	@exec env $(INSTANCE) $@

test:
	@sh fcgi/etc/bring build test fuzz
	$(AGAIN) all unit
	@INTERLOCK_BUILD='$(B)' sh t/run $(TESTS)

# The long variants of what breaks things on purpose: more of each fault than
# make test has time for.
soak:
	@sh fcgi/etc/bring build test
	$(AGAIN) all unit
	@INTERLOCK_BUILD='$(B)' INTERLOCK_FULL=1 sh t/run t/50-crash t/model \
		t/10-module/53-flood.t

# How fast it is, beside its peers: t/80-bench/README.md.
bench:
	@sh fcgi/etc/bring build test
	$(AGAIN) all bench-tools
	@ulimit -n "$$(ulimit -H -n)" 2>/dev/null; PATH="$$PATH:/usr/sbin:/sbin" \
	    INTERLOCK_BUILD='$(B)' perl t/80-bench/run

# Everything again under the address and undefined behaviour sanitizers, and
# the backend under the thread sanitizer; then the bands that touch it.
ASAN = -fsanitize=address,undefined -fno-sanitize-recover=undefined
TSAN = -fsanitize=thread
sanitize:
	@sh fcgi/etc/bring build test
	$(AGAIN) all
	$(AGAIN) all unit B=build-asan SAN='$(ASAN)'
	$(AGAIN) build-tsan/interlockd B=build-tsan SAN='$(TSAN)'
	@sh t/sanitize

fuzz:
	@sh fcgi/etc/bring build test fuzz
	$(AGAIN) all
	@sh t/fuzz/run

# What make fuzz has found, and the seeds, once more under valgrind.
valgrind:
	@sh fcgi/etc/bring build test fuzz
	@sh t/fuzz/run --valgrind

INSTALL = install -D
install: all
	$(INSTALL) -m 755 $(B)/interlock '$(DESTDIR)$(bindir)/interlock'
	$(INSTALL) -m 755 $(B)/interlockd '$(DESTDIR)$(sbindir)/interlockd'
	$(INSTALL) -m 644 $(B)/ngx_http_interlock_module.so \
	    '$(DESTDIR)$(moduledir)/ngx_http_interlock_module.so'
	@for f in sql/*.sql sql/*/*.sql ngx_module/interlock_params \
	    ngx_module/interlock_audit ngx_module/interlock_ui_headers \
	    ngx_module/interlock_ui_types \
	    fcgi/etc/kinds/*.json fcgi/etc/effect-kinds/*.json \
	    fcgi/etc/schedules/*.json \
	    ngx_module/interlock_effect_params fcgi/etc/units/*; do [ ! -f "$$f" ] || \
	    $(INSTALL) -m 644 "$$f" '$(DESTDIR)$(datadir)'/"$${f#fcgi/etc/}"; done
	@find fcgi/www -type f ! -name '*.md' -exec sh -c 'for f; do \
	    $(INSTALL) -m 644 "$$f" "$$0/$${f#fcgi/}" || exit 1; done' \
	    '$(DESTDIR)$(datadir)' {} +
	@f=fcgi/etc/interlock.bash-completion; [ ! -f $$f ] || $(INSTALL) -m 644 $$f \
	    '$(DESTDIR)$(prefix)/share/bash-completion/completions/interlock'
	@for f in fcgi/man/*.[158]; do [ ! -f "$$f" ] || \
	    $(INSTALL) -m 644 "$$f" \
	    '$(DESTDIR)$(mandir)'/"man$${f##*.}/$${f##*/}"; done

clean:
	rm -rf build build-asan build-tsan build-fuzz

distclean: clean
	rm -rf config.mak config.stale node_modules t/node_modules
