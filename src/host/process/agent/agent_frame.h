/* SPDX-License-Identifier: Apache-2.0
 * What a unit's supervisor and its agent on a host say to each other, over the agent's stdin and
 * stdout, which a remote shell carries. A frame is a head, a body of fixed size by its kind, and for
 * some kinds a tail. Whatever comes is checked here before anybody looks at it.
 *
 *   supervisor to agent  CHECK   what ranks will need on this host; the first frame, and once
 *                        FILE    into its private room: a key, say
 *                        LAUNCH  these ranks, with this command line; none runs
 *                        AGAIN   this one of them, which has ended: it comes back to the job
 *                        TELL    a frame of the ranks' meeting, for all ranks here
 *                        SIGNAL  to all ranks, or to one
 *                        REACH   try whether another host is reached from this one
 *                        PING    a few times within the timeout
 *   agent to supervisor  FACTS   the answer to CHECK
 *                        HERE    a rank has come to meet the others: its own frame
 *                        SIGNS   of life, of all ranks here, a few times within the timeout
 *                        ENDED   a rank has, and how
 *                        REACHED the answer to REACH
 *                        PONG    the answer to PING
 *
 * All hosts are of one kind, so numbers travel as they lie in memory. Programs of other versions
 * understand each other as far as head, CHECK and the first fields of FACTS, which never change.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

#define AGENT_MAGIC 0x41544146u /* "FATA" */
#define AGENT_FRAME_BYTES_MAX ((size_t)16 << 20)
#define AGENT_WORDS_MAX 512 /* of a command line, and of an environment */

enum agent_kind {
    AGENT_CHECK = 1,
    AGENT_LAUNCH,
    AGENT_REPORT,
    AGENT_SIGNAL,
    AGENT_PING,
    AGENT_FACTS,
    AGENT_JOIN,
    AGENT_SIGNS,
    AGENT_ENDED,
    AGENT_PONG,
    AGENT_FILE,
    AGENT_AGAIN,
    AGENT_REACH,
    AGENT_REACHED,
    AGENT_KINDS
};

struct agent_head {
    uint32_t magic, kind;
    uint32_t bytes; /* of body and tail */
    uint32_t reserved;
};

struct agent_check {
    int64_t timeout_ns;    /* without a PING, after which the supervisor is dead; 0: never */
    uint64_t kv_bytes;     /* of the unit's KV pages, on all its ranks */
    uint32_t count, total; /* ranks of the unit here, and in all */
    uint32_t redundant;    /* slots for replicas of experts */
    uint32_t reserved;
    char unit[32];      /* names supervisor and unit: who had it before is dead */
    char interface[64]; /* "": any */
    char model[1024];   /* a directory; "": the one that comes with the program */
    char folder[1024];  /* what relative paths begin at, if it is there */
};

struct agent_facts {
    char version[32], build[32];       /* of the program */
    char lacks[512];                   /* what is not as it must be, and what to do; "": nothing */
    char host[64];                     /* the name that the host has for itself */
    char address[64];                  /* of the interface, numeric */
    char room[256];                    /* a private folder for as long as the agent lives */
    uint8_t model[32];                 /* what identifies the model's files */
    uint64_t needed_bytes, free_bytes; /* of memory; 0: not known */
    uint32_t port;                     /* that was free */
    uint32_t cpus;                     /* that ranks may use */
    uint32_t reach_port;               /* where others may try whether they reach it; 0: nowhere */
    uint32_t reserved;
};

struct agent_place {  /* REACH */
    char address[64]; /* numeric */
    uint32_t port;
    uint32_t host, round; /* for the answer */
    uint32_t reserved;
};

struct agent_reached {
    uint32_t host, round;
    int32_t error; /* 0: it is; else an errno */
    uint32_t reserved;
};

struct agent_launch { /* tail: words, each with a terminator: argv, then NAME=VALUE of all ranks */
    uint32_t first, count, total;
    uint32_t arguments, settings;
    uint32_t sharing; /* ranks that share the host's CPUs, these and those of other units */
    uint32_t before;  /* of those: other units', which have the host's first devices */
    uint32_t number;  /* of the start: its folder in the room */
    char host[64];    /* what this host is called in the job; "": it has all ranks */
};

struct agent_file { /* tail: what is in it */
    char name[32];  /* without a folder */
};

struct agent_again {
    uint32_t number, rank; /* of the start */
};

#define AGENT_ALL_RANKS UINT32_MAX

struct agent_signal {
    uint32_t rank; /* or AGENT_ALL_RANKS */
    int32_t number;
};

struct agent_sign {
    uint64_t tiles, moved, ran;
    int64_t pid, cpu_ns;
    uint32_t state, place;
    uint32_t peer; /* as in struct pulse */
    uint32_t reserved;
    uint32_t role;  /* enum unit_role and 1; 0: never set */
    uint32_t epoch; /* rank 0's: of the job, with its present ranks */
};

struct agent_signs {        /* tail: a struct agent_sign for each rank here, ascending */
    uint32_t number, count; /* of the start; of the signs */
};

struct agent_ended {
    uint32_t number, rank;
    int32_t status; /* as waitpid says */
    uint32_t reserved;
};

struct agent_frame {
    enum agent_kind kind;
    size_t bytes;     /* with the head */
    const void *body; /* of its kind, not aligned; none for PING, PONG, TELL and HERE */
    struct bytes tail;
};

enum agent_got { AGENT_GOT_FRAME, AGENT_GOT_TOO_LITTLE, AGENT_GOT_NONSENSE };

/* The frame that `got` begins with, from a supervisor or from an agent. Its form is right: texts
 * end, ranks lie in the job, the tail is as long as the body says. */
enum agent_got agent_frame_read(struct bytes got, bool from_agent, struct agent_frame *frame_out);

/* The head of a frame with a body and a tail of so many bytes. */
struct agent_head agent_frame_head(enum agent_kind kind, size_t bytes);

/* The body's bytes of a kind. */
size_t agent_frame_body_bytes(enum agent_kind kind);

/* Word after word of a LAUNCH's tail; the tail is right, and ends with a terminator. */
const char *agent_frame_next_word(struct bytes *tail);
