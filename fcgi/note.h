/*
 * note.h: what is to be told, gathered; and its text.
 *
 * A message is words with a blank between them:
 *
 *   hello                     somebody has begun to listen, and wants a beat
 *   beat                      somebody is there
 *   look                      look at everything
 *   k:TENANT:KIND:N           N jobs of that kind became runnable; 0: look
 *                             when the next is due
 *   j:ID                      a job has ended; base64url of its 16 bytes
 *
 * NOTIFY carries less than 8000 bytes, the sender's name included.
 */

#ifndef IL_NOTE_H
#define IL_NOTE_H

#include "db.h"
#include "il_key.h"
#include "il_uuid.h"

#define IL_NOTE_KINDS  256
#define IL_NOTE_JOBS   4096
#define IL_NOTE_COUNT  1000        /* the most that N says */
#define IL_NOTE_MAX    7900

typedef struct {
    int32_t   tenant;
    uint32_t  n;
    char      kind[IL_NAME_MAX + 1];
} il_note_kind_t;

/* all: more than has room here; everything is to be looked at. */
typedef struct {
    il_note_kind_t  kinds[IL_NOTE_KINDS];
    size_t          nkinds;
    uint8_t         jobs[IL_NOTE_JOBS][IL_UUID_BYTES];
    size_t          njobs;
    int             all;
} il_notes_t;

/* Adds one; a kind that is there already counts up.  None of these lock. */
void il_note_kind(il_notes_t *notes, int32_t tenant, il_str_t kind, size_t n);
void il_note_ended(il_notes_t *notes, const uint8_t job_id[IL_UUID_BYTES]);

/* 1 if there is nothing. */
int il_note_empty(const il_notes_t *notes);

/* Puts them, as messages, into the text[] argument number `at`: how many. */
size_t il_note_put(const il_notes_t *notes, il_db_args_t *args, size_t at);

typedef struct {
    void  (*hello)(void *arg);
    void  (*look)(void *arg);
    void  (*kind)(int32_t tenant, il_str_t kind, size_t n);
    void  (*ended)(const uint8_t job_id[IL_UUID_BYTES]);
} il_note_ops_t;

/* Reads one message; words that are not understood are passed over, for a
 * later version may say more. */
void il_note_read(il_str_t text, const il_note_ops_t *ops, void *arg);

#endif /* IL_NOTE_H */
