/*
 * Receipts of audits (audit/receipt.h) on their way into the journal, by the running gateway, and back out of it to be held against a
 * file of exchanges.
 */
#ifndef CMD_RECEIPT_H
#define CMD_RECEIPT_H

#include "audit/receipt.h"
#include "cmd/command.h"

/* What goes into the record beside the receipt; NULL or "": nothing. */
struct receipt_record {
    const char *service, *outcome, *detail, *sandbox, *canary;
};

/*
 * Have the running gateway at admin (NULL: the configuration has no such socket) record it. The id of the record (give); NULL and why: no
 * gateway was told, and the journal has nothing of it.
 */
char *receipt_hand(const char *admin, const struct receipt *r, const struct receipt_record *about, struct fault *why);

/* `exeat audit SERVICE --check-exchanges FILE`: is it what the journal has a receipt of? Returns a command_status. */
int receipt_check(const struct invocation *inv, const char *service, const char *path);

#endif
