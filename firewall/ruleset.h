/*
 * The ruleset of a plan, as nftables text. In three places, each for what the others cannot see:
 *
 *   netdev   every frame that comes in by the interface, before anything of this host has looked at it: default deny
 *   inet     what it becomes: steered, delivered, forwarded; and what goes back to the sandbox
 *   bridge   for a port of a bridge: nothing from it to another port or back
 *
 * Each rule counts and says in a comment what it is for; none is there twice, so that without any one of them something opens or
 * breaks (tests/e2e/test_firewall.py takes each away). Pure, and the same for the same plan.
 */
#ifndef FIREWALL_RULESET_H
#define FIREWALL_RULESET_H

#include "base/buf.h"
#include "firewall/plan.h"

/* What netdev lets in carries this mark, and only that is let further; the other is of what a transparent listener takes whole. */
#define RULESET_MARK 0x65780000u
#define RULESET_MARK_STEERED 0x65780001u
/* The routing table in which everything is this host: where steered packets are delivered with TPROXY. */
#define RULESET_ROUTES 25976
/* Of base chains: ours see frames before others do. */
#define RULESET_INGRESS_PRIORITY (-1000)
#define RULESET_STEER_PRIORITY (-101)

/* "exeat_vm1" */
void ruleset_table(const char *name, struct buf *out);
/* The families that have a table of that name, ended by NULL. */
extern const char *const ruleset_families[];

/* The text that `nft -f -` reads: it replaces an earlier one of this name in the same transaction. */
void ruleset_write(const struct plan *p, struct buf *out);
/* The text that takes away what ruleset_write made, whatever of it is there. */
void ruleset_write_removal(const char *name, struct buf *out);

#endif
