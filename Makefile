# Exeat. `make help` lists the targets.
MAKEFLAGS += --no-print-directory
SHELL := /bin/bash

B ?= build
# One short line for each file; V=1 shows the commands.
quiet = $(if $(V),,@$(if $(findstring s,$(firstword -$(MAKEFLAGS))),,echo '  $(1) $@';))
ifeq ($(origin CC),default)
CC := gcc
endif
PREFIX ?= /usr/local
# The Python that Debian's packages belong to, whatever else is in PATH.
PYTHON ?= /usr/bin/python3
ROOMS := base net authz certs canary journal handoff audit proxy firewall sandbox cmd
VERSION := 0.1.0

PACKAGES := libevent openssl jansson libcares ldns yaml-0.1 libidn2 libhs zlib libseccomp libcurl libnftables libmnl
CHECKS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings \
          -Wvla -Wformat=2 -Wundef -Wold-style-definition -Werror
HARDEN := -fPIE -fstack-protector-strong -fstack-clash-protection -fcf-protection -D_FORTIFY_SOURCE=3
OPTIMISE ?= -O2 -g
# The program is optimised as one piece when it is linked (8 % less CPU a request); tests link the same objects plainly.
LTO ?= $(if $(findstring gcc,$(CC)),-flto=auto -ffat-lto-objects)
# Where gcc knows a bound of a length it would copy and clear by string instructions, which take tens of cycles to begin: six
# tenths of what record_text took. The library's own are quicker for all lengths that matter here.
comma := ,
STRINGS := $(if $(findstring gcc,$(CC)),$(if $(findstring x86_64,$(shell $(CC) -dumpmachine)),$(foreach f,memcpy memset,\
           -m$(f)-strategy=unrolled_loop:64:noalign$(comma)libcall:-1:noalign)))
CFLAGS_ALL = -std=c11 -D_GNU_SOURCE -DEXEAT_VERSION='"$(VERSION)"' -DLLHTTP_STRICT_MODE=1 -I. -I$(B) -I/usr/share/include/llhttp \
             $(OPTIMISE) $(STRINGS) $(CHECKS) $(HARDEN) $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null) $(CFLAGS)
LDFLAGS_ALL = -pie -Wl,-z,relro,-z,now $(LDFLAGS)
# libcurl is found while running, by what needs it: audit/curl.c.
LIBS = $(shell pkg-config --libs $(filter-out libcurl,$(PACKAGES)) 2>/dev/null) -lm

SOURCES := $(foreach r,$(ROOMS),$(wildcard $(r)/*.c))
MAIN := cmd/main.c
# Programs for inside a sandbox, each of its main file and the rest of its room. They need nothing where they run.
HELPERS := exeat-relay exeat-credential
HELPER_MAINS := $(patsubst exeat-%,sandbox/%.c,$(HELPERS))
HELPER_PARTS := $(filter-out $(HELPER_MAINS),$(wildcard sandbox/*.c))
OBJECTS := $(patsubst %.c,$(B)/%.o,$(filter-out $(MAIN) $(HELPER_MAINS),$(SOURCES)))
LLHTTP := $(patsubst %,$(B)/llhttp/%.o,llhttp api http)
UNIT := $(wildcard tests/unit/*.c)
UNIT_BIN := $(patsubst tests/unit/%.c,$(B)/tests/%,$(UNIT))

ASAN_FLAGS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
FUZZ := $(wildcard tests/fuzz/*.c)
FUZZ_SANITIZE := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
# Of the program's rooms, those that the targets reach.
FUZZ_ROOMS := base net authz certs canary journal handoff proxy sandbox
FUZZ_WITH = B=build/fuzzing ROOMS='$(FUZZ_ROOMS)' CC=clang LTO= OPTIMISE='-O1 -g' LDFLAGS='$(FUZZ_SANITIZE)' \
            CFLAGS='$(FUZZ_SANITIZE) -U_FORTIFY_SOURCE -Wno-format-nonliteral -Wno-unused-command-line-argument'
SECONDS ?= 60
SANITIZE_WITH = SANITIZED=1 B=build/asan CC=gcc LTO= OPTIMISE='-O1 -g' LDFLAGS='$(ASAN_FLAGS)' \
             CFLAGS='$(ASAN_FLAGS) -U_FORTIFY_SOURCE -Wno-format-truncation -DEXEAT_SANITIZE'
CLANG_READS ?= $(SOURCES) $(UNIT) $(FUZZ) $(wildcard tests/fuzz/lib/*.c)
CLANG := $(patsubst %.c,$(B)/clang/%.ok,$(CLANG_READS))
E2E := $(wildcard tests/e2e)
RUN_E2E = EXEAT=$(abspath $(B)/exeat) SANITIZED=$(SANITIZED) timeout -s INT -k 30 $(E2E_SECONDS) $(PYTHON) -B -m pytest -q -p no:cacheprovider \
          -o faulthandler_timeout=240
# After so long the end-to-end tests hang; they are interrupted and say where.
E2E_SECONDS ?= 1200
# They mostly wait: three processes for each processor. What measures (marked `alone`) runs after them, by itself.
E2E_JOBS ?= $(shell expr $$(nproc) \* 3)
# Each of these processes starts every program of the lab.
LAB_JOBS ?= $(shell expr $$(nproc) + 1)
E2E_PROGRAMS := $(patsubst %,$(B)/bench/%,load origin flood questions) $(B)/hostile $(B)/tests/exeat-clock
# As many jobs as processors, unless the caller has said how many.
JOBS = $(if $(findstring j,$(firstword -$(MAKEFLAGS))),,-j$(shell nproc))

.PHONY: neighbours clients lifetimes programs scenario lab all help deps test-deps man docs bench profile force unit e2e clang cppcheck lint check sanitize fuzz fuzz-build fuzz-programs differential soak demo run bare install clean
.SECONDARY:

all: $(B)/exeat $(patsubst %,$(B)/%,$(HELPERS)) ## build everything (V=1: show the commands)

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

deps: ## install what the build needs, from Debian packages
	@tests/install build

test-deps: deps ## install what the tests and the demo need
	@tests/install tests

$(B)/.deps: tests/install
	@tests/install build
	@mkdir -p $(@D) && touch $@

$(B)/.unit-deps: tests/install | $(B)/.deps
	@tests/install unit
	@touch $@

neighbours: test-deps $(B)/exeat $(patsubst %,$(B)/bench/%,load origin flood) ## hostile sandboxes beside an honest one, for some minutes
	@EXEAT=$(abspath $(B)/exeat) NEIGHBOURS_ROUNDS=30 NEIGHBOURS_TURN=2 NEIGHBOURS_NOISE=0 $(PYTHON) -B -m pytest -q -s -p no:cacheprovider tests/e2e/test_neighbours.py

clients: test-deps all ## the clients that check does without: Node 24 and verdaccio (npm fetches them), Gradle, docker's engine
	@tests/install clients
	@mkdir -p $(B)/clients && cp tests/clients.json $(B)/clients/package.json
	@cd $(B)/clients && npm install --silent --no-audit --no-fund --omit=optional
	@EXEAT=$(abspath $(B)/exeat) CLIENTS=$(abspath $(B)/clients) $(PYTHON) -B -m pytest -q -s -p no:cacheprovider tests/e2e/long_clients.py tests/e2e/long_fronting.py

lifetimes: test-deps all ## a clone and an install of three minutes with tokens of thirty seconds, no request failed
	@EXEAT=$(abspath $(B)/exeat) LIFETIMES="180 30" $(PYTHON) -B -m pytest -q -s -p no:cacheprovider tests/e2e/test_lifetimes.py

$(B)/%.o: %.c Makefile | $(B)/.deps
	@mkdir -p $(@D)
	$(call quiet,CC)$(CC) $(CFLAGS_ALL) $(LTO) -MMD -MP -c $< -o $@

# The table of commands: every `const struct command command_NAME` in cmd/, by name.
$(B)/cmd/commands.def: force
	@mkdir -p $(@D)
	@sed -n 's/^const struct command \(command_[a-z_]*\) .*/COMMAND(\1)/p' cmd/*.c | LC_ALL=C sort >$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(B)/cmd/command.o: $(B)/cmd/commands.def

$(B)/llhttp/%.o: /usr/share/llhttp/%.c | $(B)/.deps
	@mkdir -p $(@D)
	$(call quiet,CC)$(CC) -std=c11 -O2 -g -fPIE -DLLHTTP_STRICT_MODE=1 -I/usr/share/include/llhttp -c $< -o $@

/usr/share/llhttp/%.c: | $(B)/.deps ;

$(B)/libexeat.a: $(OBJECTS) $(LLHTTP)
	@rm -f $@
	$(call quiet,AR)ar qcs $@ $^

$(B)/exeat: $(B)/cmd/main.o $(B)/libexeat.a
	$(call quiet,LD)$(CC) $(LDFLAGS_ALL) $(OPTIMISE) $(STRINGS) $(LTO) $(HARDEN) $(CFLAGS) $< $(B)/libexeat.a $(LIBS) -o $@

# Static and position-independent, with musl, whose gcc has no word for both. A sanitizer needs the machine's own libc.
MUSL := /usr/lib/$(shell gcc -dumpmachine | sed 's/-gnu$$//')-musl
MUSL_FLAGS := -std=c11 -D_GNU_SOURCE -DEXEAT_VERSION='"$(VERSION)"' -I. -Os $(CHECKS) -fPIE -fstack-protector-strong \
              -fcf-protection -fstack-clash-protection -ffunction-sections
MUSL_LINK := -static -nostartfiles -s -Wl,-pie,--no-dynamic-linker,-z,text,-z,relro,-z,now,-z,noexecstack,--gc-sections

$(B)/musl/%.o: %.c Makefile | $(B)/.deps
	@mkdir -p $(@D)
	$(call quiet,CC)musl-gcc $(MUSL_FLAGS) -MMD -MP -c $< -o $@

ifdef SANITIZED
$(B)/exeat-%: $(B)/sandbox/%.o $(patsubst %.c,$(B)/%.o,$(HELPER_PARTS))
	$(call quiet,LD)$(CC) $(LDFLAGS_ALL) $(OPTIMISE) $(HARDEN) $(CFLAGS) $^ -o $@
else
$(B)/exeat-%: $(B)/musl/sandbox/%.o $(patsubst %.c,$(B)/musl/%.o,$(HELPER_PARTS))
	$(call quiet,LD)musl-gcc $(MUSL_LINK) $(MUSL)/rcrt1.o $(MUSL)/crti.o $^ $(MUSL)/crtn.o -o $@
endif

# The program with its worker taken over: the tests' own, next to the one that is shipped.
$(B)/hostile: tests/hostile/worker.c $(B)/cmd/main.o $(B)/libexeat.a
	$(call quiet,LD)$(CC) $(CFLAGS_ALL) -MMD -MP -MF $@.d $(LDFLAGS_ALL) -fno-lto $< $(B)/cmd/main.o $(B)/libexeat.a $(LIBS) -o $@

$(B)/tests/%: tests/unit/%.c $(B)/libexeat.a | $(B)/.unit-deps
	@mkdir -p $(@D)
	$(call quiet,LD)$(CC) $(CFLAGS_ALL) -MMD -MP -MF $@.d $(LDFLAGS_ALL) -fno-lto $< $(B)/libexeat.a $(LIBS) $(shell pkg-config --libs cmocka libjwt) -o $@

# The program with a clock that tests can set (tests/clock/clock.c says how), linked before the real one is looked for.
$(B)/tests/exeat-clock: tests/clock/clock.c base/clock.c $(B)/cmd/main.o $(B)/libexeat.a
	@mkdir -p $(@D)
	$(call quiet,LD)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -fno-lto $< $(B)/cmd/main.o $(B)/libexeat.a $(LIBS) -o $@

man: $(B)/exeat ## write the manual pages into build/man
	@$(B)/exeat man $(B)/man

docs: $(B)/exeat ## write docs/configuration.md, docs/reasons.md and docs/checks.md from their tables
	@$(B)/exeat config help >$(B)/configuration.md && mv $(B)/configuration.md docs/configuration.md
	@$(B)/exeat why --markdown >$(B)/reasons.md && mv $(B)/reasons.md docs/reasons.md
	@$(B)/exeat audit --catalogue >$(B)/checks.md && mv $(B)/checks.md docs/checks.md

unit: $(UNIT_BIN) ## run the cmocka tables
	@tests/unit/run $(UNIT_BIN)

e2e: test-deps all $(E2E_PROGRAMS) ## run the end-to-end tests (pytest)
ifneq ($(E2E),)
	@$(RUN_E2E) -n $(E2E_JOBS) --dist loadfile -m 'not alone' $(PYTEST) tests/e2e
	@$(RUN_E2E) -m alone $(PYTEST) tests/e2e || [ $$? = 5 ]
endif

scenario: test-deps all ## the case behind this, with real programs: a canary leaves through a package proxy; Exeat, the audit and the door
	@$(PYTHON) -B tests/lab/scenario.py $(SCENARIO) $(abspath $(B)/exeat)

programs: test-deps all ## real programs, weak and hardened, answer as the audit's answer sheet says (PYTEST='-k squid')
	@EXEAT=$(abspath $(B)/exeat) $(PYTHON) -B -m pytest -q -p no:cacheprovider -o faulthandler_timeout=240 -n $(LAB_JOBS) --dist loadfile $(PYTEST) tests/lab
	@$(if $(PYTEST),:,EXEAT=$(abspath $(B)/exeat) CLIENTS=$$(ls -td $(abspath $(B))/lab/verdaccio-6.1.6-* | head -1) \
	    $(PYTHON) -B -m pytest -q -p no:cacheprovider -o faulthandler_timeout=240 -k verdaccio tests/e2e/long_fronting.py)

lab: test-deps all ## one of them for hand work: PROGRAM=squid SETTING=hardened (without: what there is)
	@$(PYTHON) -B tests/lab/lab.py --exeat $(abspath $(B)/exeat) $(LAB) $(PROGRAM) $(SETTING)

$(B)/clang/%.ok: %.c Makefile $(B)/cmd/commands.def | $(B)/.deps
	@mkdir -p $(@D)
	@clang $(filter-out -fstack-clash-protection $(STRINGS),$(CFLAGS_ALL)) -Wno-unused-command-line-argument -Wno-format-nonliteral -fsyntax-only \
	    -MMD -MP -MF $(@:.ok=.d) -MT $@ $<
	@touch $@

clang: $(CLANG) ## read every file with clang's warnings too

# cppcheck takes a query inside assert() for a side effect, and sizeof p->x for a use of p: those two are off.
cppcheck: test-deps
	@mkdir -p $(B)/cppcheck
	@cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
	    --cppcheck-build-dir=$(B)/cppcheck --library=tests/cppcheck.cfg --suppress=missingIncludeSystem \
	    --suppress=assertWithSideEffect --suppress=ctunullpointer -D_GNU_SOURCE '-DEXEAT_VERSION="$(VERSION)"' -I. $(wildcard $(ROOMS))

lint: cppcheck clang ## layers, banned words, clang, cppcheck
	@tests/check-layers
	@tests/check-banned
	@echo "lint: nothing to say"

# One make for all that is built, so that no processor is left idle at the end of a step. What clang compiles for the
# fuzz targets, with the same warnings, is not read by it a second time.
check: test-deps ## everything: both compilers, lint, unit and end-to-end tests
	@$(MAKE) $(JOBS) lint all unit $(E2E_PROGRAMS) fuzz-programs \
	    CLANG_READS='$(foreach r,$(filter-out $(FUZZ_ROOMS),$(ROOMS)),$(wildcard $r/*.c)) $(UNIT)'
	@$(MAKE) fuzz SECONDS=2 FUZZ_RUN='--jobs 2'
	@$(MAKE) e2e
	@$(MAKE) programs
	@$(MAKE) soak MINUTES=0.2

sanitize: test-deps ## the same tests with AddressSanitizer and UndefinedBehaviorSanitizer
	@$(MAKE) $(JOBS) $(SANITIZE_WITH) all
	@$(MAKE) $(JOBS) $(SANITIZE_WITH) unit
	@$(MAKE) $(SANITIZE_WITH) E2E_SECONDS=2400 e2e

# Fuzz targets are tests/fuzz/*.c, each with what it needs of tests/fuzz/lib. fuzz-build is called with FUZZ_WITH.
$(B)/libfuzzing.a: $(patsubst %.c,$(B)/%.o,$(wildcard tests/fuzz/lib/*.c))
	@rm -f $@
	$(call quiet,AR)ar qcs $@ $^

$(B)/fuzz/%: tests/fuzz/%.c $(B)/libfuzzing.a $(B)/libexeat.a
	@mkdir -p $(@D)
	$(call quiet,LD)$(CC) $(CFLAGS_ALL) -fsanitize=fuzzer -MMD -MP -MF $@.d $(LDFLAGS_ALL) $< $(B)/libfuzzing.a $(B)/libexeat.a $(LIBS) -o $@

fuzz-build: $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(FUZZ))

fuzz-programs:
	@$(MAKE) $(FUZZ_WITH) fuzz-build

fuzz: test-deps ## feed what reads hostile bytes with more of them (SECONDS=60 each; FUZZ=tests/fuzz/head.c: one)
	@$(MAKE) $(JOBS) fuzz-programs
	@tests/fuzz/run --build build/fuzzing --seconds $(SECONDS) $(FUZZ_RUN) $(patsubst tests/fuzz/%.c,%,$(FUZZ))

MINUTES ?= 10
soak: test-deps ## traffic of every kind, with faults, for MINUTES=10; SANITIZE=1: with AddressSanitizer
	@$(MAKE) $(JOBS) $(if $(SANITIZE),$(SANITIZE_WITH)) all
	@EXEAT=$(abspath $(if $(SANITIZE),build/asan,$(B))/exeat) SANITIZED=$(SANITIZE) $(PYTHON) -B tests/soak/soak \
	    --minutes $(MINUTES) $(SOAK)

differential: test-deps $(B)/exeat ## what the gateway forwards, nginx reads as the same (COUNT=20000 requests, SEED=N)
	@EXEAT=$(abspath $(B)/exeat) COUNT=$(or $(COUNT),20000) SEED=$(SEED) $(PYTHON) -B -m pytest -q -s -p no:cacheprovider tests/e2e/test_differential.py

demo: $(B)/exeat ## real clients through the gateway to a registry on this machine, allowed and refused
	@tests/install demo
	@/usr/bin/python3 -B demo/demo.py $(B)/exeat

run: $(B)/exeat ## a gateway of your own in ./run
	@[ -e run/proxy.conf ] || $(B)/exeat -q init run
	@echo "In another terminal: export EXEAT_CONFIG=$(CURDIR)/run/proxy.conf PATH=$(abspath $(B)):\$$PATH; README.md goes on from there."
	@exec $(B)/exeat -c run/proxy.conf serve

bare: ## `make demo` in a fresh Debian tree (root; not part of check)
	@tests/install bare
	@tests/bare

UNITS := $(foreach r,$(ROOMS),$(wildcard $r/*.service $r/*.timer))
install: all man ## install into $(DESTDIR)$(PREFIX)
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin $(B)/exeat $(patsubst %,$(B)/%,$(HELPERS))
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man1 $(B)/man/*.1
	for unit in $(UNITS); do sed 's,@PREFIX@,$(PREFIX),' $$unit >$(B)/$${unit##*/}; done
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/systemd/system $(addprefix $(B)/,$(notdir $(UNITS)))
	[ ! -f proxy.conf.example ] || install -D -m 644 proxy.conf.example $(DESTDIR)$(PREFIX)/share/doc/exeat/proxy.conf.example

clean: ## remove what was built
	rm -rf $(B)

$(B)/bench/load: $(patsubst %,$(B)/bench/%.o,load client histogram wire)
$(B)/bench/origin: $(patsubst %,$(B)/bench/%.o,origin wire)
$(B)/bench/relay: $(patsubst %,$(B)/bench/%.o,relay wire)
$(B)/bench/flood: $(patsubst %,$(B)/bench/%.o,flood wire)
$(B)/bench/questions: $(B)/bench/questions.o
$(B)/bench/load $(B)/bench/origin $(B)/bench/relay $(B)/bench/flood $(B)/bench/questions:
	$(call quiet,LD)$(CC) $(LDFLAGS_ALL) $(OPTIMISE) $(CFLAGS) $^ -lssl -lcrypto -o $@

bench: $(B)/exeat $(patsubst %,$(B)/bench/%,load origin relay) ## measure against a plain relay and other proxies (QUICK=1: some minutes)
	@tests/install bench
	@bench/run --build $(B) $(if $(QUICK),--quick) $(BENCH)

$(B)/bench/wrap.so: bench/wrap.c
	@mkdir -p $(@D)
	$(call quiet,LD)$(CC) -std=c11 -D_GNU_SOURCE $(OPTIMISE) $(CHECKS) -fPIC -shared $< -o $@

# The switch that lets a sanitizer read its own process lets valgrind, too.
PROFILE_WITH = B=build/profile CFLAGS='-DEXEAT_SANITIZE'

profile: ## instructions a request by file, worker and scribe (PROFILE='--role worker --functions')
	@tests/install profile
	@$(MAKE) $(JOBS) $(PROFILE_WITH) build/profile/exeat $(patsubst %,build/profile/bench/%,load origin relay wrap.so)
	@bench/profile --build build/profile $(PROFILE)

-include $(shell find $(B) -name '*.d' 2>/dev/null)
