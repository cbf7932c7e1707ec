# Exeat. `make help` lists the targets.
MAKEFLAGS += --no-print-directory
SHELL := /bin/bash

B ?= build
CC ?= gcc
ROOMS := base net authz certs canary journal handoff proxy sandbox cmd
VERSION := 0.1.0

PACKAGES := libevent libevent_openssl openssl libjwt jansson libcares yaml-0.1 libidn2 libhs
CHECKS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings \
          -Wvla -Wformat=2 -Wundef -Wold-style-definition -Werror
HARDEN := -fPIE -fstack-protector-strong -fstack-clash-protection -fcf-protection -D_FORTIFY_SOURCE=3
OPTIMISE ?= -O2 -g
CFLAGS_ALL = -std=c11 -D_GNU_SOURCE -DEXEAT_VERSION='"$(VERSION)"' -DLLHTTP_STRICT_MODE=1 -I. -I$(B) -I/usr/share/include/llhttp \
             $(OPTIMISE) $(CHECKS) $(HARDEN) $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null) $(CFLAGS)
LDFLAGS_ALL = -pie -Wl,-z,relro,-z,now $(LDFLAGS)
LIBS = $(shell pkg-config --libs $(PACKAGES) 2>/dev/null) -lm

SOURCES := $(foreach r,$(ROOMS),$(wildcard $(r)/*.c))
MAIN := cmd/main.c
OBJECTS := $(patsubst %.c,$(B)/%.o,$(filter-out $(MAIN),$(SOURCES)))
LLHTTP := $(patsubst %,$(B)/llhttp/%.o,llhttp api http)
UNIT := $(wildcard tests/unit/*.c)
UNIT_BIN := $(patsubst tests/unit/%.c,$(B)/tests/%,$(UNIT))

.PHONY: all help deps test-deps man force
.SECONDARY:

all: $(B)/exeat ## build everything

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

deps: ## install what the build needs, from Debian packages
	@tests/install build

test-deps: deps ## install what the tests and the demo need
	@tests/install tests

$(B)/.deps: tests/install
	@tests/install build
	@mkdir -p $(@D) && touch $@

$(B)/%.o: %.c Makefile | $(B)/.deps
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -MMD -MP -c $< -o $@

# The table of commands: every `const struct command command_NAME` in cmd/, by name.
$(B)/cmd/commands.def: force
	@mkdir -p $(@D)
	@sed -n 's/^const struct command \(command_[a-z_]*\) .*/COMMAND(\1)/p' cmd/*.c | LC_ALL=C sort >$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(B)/cmd/command.o: $(B)/cmd/commands.def

$(B)/llhttp/%.o: /usr/share/llhttp/%.c | $(B)/.deps
	@mkdir -p $(@D)
	$(CC) -std=c11 -O2 -g -fPIE -DLLHTTP_STRICT_MODE=1 -I/usr/share/include/llhttp -c $< -o $@

/usr/share/llhttp/%.c: | $(B)/.deps ;

$(B)/libexeat.a: $(OBJECTS) $(LLHTTP)
	@rm -f $@
	ar qcs $@ $^

$(B)/exeat: $(B)/cmd/main.o $(B)/libexeat.a
	$(CC) $(LDFLAGS_ALL) $(OPTIMISE) $(CFLAGS) $< $(B)/libexeat.a $(LIBS) -o $@

$(B)/tests/%: tests/unit/%.c $(B)/libexeat.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -MMD -MP -MF $@.d $(LDFLAGS_ALL) $< $(B)/libexeat.a $(LIBS) $(shell pkg-config --libs cmocka) -o $@

man: $(B)/exeat ## write the manual pages into build/man
	@$(B)/exeat man $(B)/man

unit: $(UNIT_BIN) ## run the cmocka tables
	@set -e; for t in $(UNIT_BIN); do $$t; done

-include $(shell find $(B) -name '*.d' 2>/dev/null)
