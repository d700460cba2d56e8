/* SPDX-License-Identifier: Apache-2.0
 * The protocol between a unit's supervisor and its agent on a host, over the agent's stdin and
 * stdout, usually through a remote shell. A frame has a head, a body of fixed size for its kind,
 * and for some kinds a tail. Received frames are validated here before use.
 *
 *   supervisor to agent  CHECK   what ranks need on this host; the first frame, sent once
 *                        FILE    store a file, such as a key, in the private room
 *                        LAUNCH  start ranks with this command line; none may be running
 *                        AGAIN   restart a rank that has ended; it rejoins the job
 *                        REPORT  a frame of the rendezvous for all ranks here
 *                        SIGNAL  send a signal to all ranks, or to one
 *                        REACH   try to connect to another host from this one
 *                        PING    a few times within the timeout
 *   agent to supervisor  FACTS   the response to CHECK
 *                        JOIN    a rank has joined the rendezvous, with its frame
 *                        SIGNS   heartbeats of all ranks here, a few times within the timeout
 *                        ENDED   a rank has ended, with its status
 *                        REACHED the response to REACH
 *                        PONG    the response to PING
 *
 * All hosts are of one kind, so numbers are sent as they are in memory. Programs of different
 * versions share only the head, CHECK and the first fields of FACTS, which never change.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

#define AGENT_MAGIC 0x41544146u /* "FATA" */
#define AGENT_FRAME_BYTES_MAX ((size_t)16 << 20)
#define AGENT_WORDS_MAX 512 /* limit for a command line, and for an environment */

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
    int64_t timeout_ns;    /* the supervisor is dead after so long without a PING; 0: never */
    uint64_t kv_bytes;     /* total size of the unit's KV pages, on all ranks */
    uint32_t count, total; /* number of the unit's ranks on this host, and on all hosts */
    uint32_t redundant;    /* expert slots for replicas */
    uint32_t force;        /* 1: memory that is not enough is no deficiency */
    char unit[32];      /* name of supervisor and unit; an older agent with this name is killed */
    char interface[64]; /* "": any */
    char model[1024];   /* directory; "": the model that comes with the program */
    char folder[1024];  /* working directory for relative paths, if it exists */
};

struct agent_facts {
    char version[32], build[32];       /* of the program */
    char lacks[512];                   /* deficiencies and their remedies; "": none */
    char host[64];                     /* the host's own name */
    char address[64];                  /* numeric address of the interface */
    char room[256];                    /* the agent's private folder */
    uint8_t model[32];                 /* identifies the contents of the model's files */
    uint64_t needed_bytes, free_bytes; /* memory; 0: unknown */
    uint32_t port;                     /* a free port */
    uint32_t cpus;                     /* CPUs available to ranks */
    uint32_t reach_port;               /* port at which other agents test a connection; 0: none */
    uint32_t machine;                  /* identifies the machine; 0: unknown */
};

struct agent_place {  /* body of REACH */
    char address[64]; /* numeric */
    uint32_t port;
    uint32_t host, round; /* copied to the response */
    uint32_t reserved;
};

struct agent_reached {
    uint32_t host, round;
    int32_t error; /* 0: reachable; otherwise an errno */
    uint32_t reserved;
};

struct agent_launch { /* tail: terminated words: argv, then NAME=VALUE for all ranks */
    uint32_t first, count, total;
    uint32_t arguments, settings;
    uint32_t sharing; /* ranks that share the host's CPUs, including those of other units */
    uint32_t before;  /* ranks of other units that have the host's first devices */
    uint32_t number;  /* number of the start; its folder in the room has this name */
    char host[64];    /* the host's name in the job; "": it has all ranks */
};

struct agent_file { /* tail: contents */
    char name[32];  /* without a folder */
};

struct agent_again {
    uint32_t number, rank; /* number of the start; rank */
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
    uint32_t peer; /* as in struct heartbeat */
    uint32_t reserved;
    uint32_t role;  /* enum unit_role + 1; 0: never set */
    uint32_t epoch; /* of rank 0: the job's epoch, which changes with its set of ranks */
};

struct agent_signs {        /* tail: one struct agent_sign for each rank here, ascending */
    uint32_t number, count; /* number of the start; number of signs */
};

struct agent_ended {
    uint32_t number, rank;
    int32_t status; /* status of waitpid */
    uint32_t reserved;
};

struct agent_frame {
    enum agent_kind kind;
    size_t bytes;     /* including the head */
    const void *body; /* not aligned; PING, PONG, REPORT and JOIN have none */
    struct bytes tail;
};

enum agent_got { AGENT_GOT_FRAME, AGENT_GOT_TOO_LITTLE, AGENT_GOT_NONSENSE };

/* Parses the frame at the start of `got`, sent by a supervisor or by an agent. A returned frame is
 * valid: texts are terminated, ranks are within the job, the tail has the length that the body
 * requires. */
enum agent_got agent_frame_read(struct bytes got, bool from_agent, struct agent_frame *frame_out);

/* The head of a frame with a body and a tail of `bytes` bytes together. */
struct agent_head agent_frame_head(enum agent_kind kind, size_t bytes);

/* The size of the body of a kind. */
size_t agent_frame_body_bytes(enum agent_kind kind);

/* Returns the next word of a LAUNCH's tail, which must be valid. */
const char *agent_frame_next_word(struct bytes *tail);
