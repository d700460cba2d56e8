/* SPDX-License-Identifier: Apache-2.0
 * All ranks get the same list of moves. Each does its part in the background, in the order of the
 * list. It sends experts to other ranks; it receives, copies or packs the experts for its own slots
 * into spare memory. Steps continue with the old map. When all ranks are done, all adopt the new
 * map between the same two steps: pointers are exchanged, and a slot's old memory becomes a spare.
 * No weight is copied in that pause.
 *
 * A failed move is reported, and the caller that made the list then keeps the old map of its layer.
 * A call of moves_progress transfers at most one chunk in each direction, limited by the rate.
 *
 * On a device, each expert that is sent, received or read passes through separate page-locked
 * memory, with copies on a separate stream. No step waits for them.
 */
#include "compute/model/moves.h"

#include "base/check.h"
#include "compute/device/device.h"
#include "compute/exchange/move_checksum.h"
#include "compute/exchange/move_transport.h"
#include "compute/model/model_state.h"

#include <stdlib.h>
#include <string.h>

enum role { ROLE_NONE, ROLE_GIVE, ROLE_TAKE, ROLE_COPY, ROLE_READ };

/* A move, and this rank's part of it. */
struct moving {
    struct expert_move move;
    enum role role;
    char *memory; /* the expert's new memory if it moves here; else NULL */
};

/* The purpose of a device's copies; each purpose has one expert at a time. */
enum copy_way { COPY_GIVES, COPY_TAKES, COPY_MAKES, COPY_WAYS };

/* Copies to and from a device. */
struct device_copies {
    struct device_stream *stream;
    struct {
        char *memory; /* [slot_bytes] page-locked */
        struct device_event *done;
        bool begun;
    } ways[COPY_WAYS];
};

struct moves {
    struct move_transport *transport;
    struct device_copies copies; /* only on a device */
    char **spares; /* [spare_max], spare_count of them used: memory for an expert each */
    uint32_t spare_count, spare_max;
    struct moving *list;
    uint32_t count;                  /* 0: none are under way */
    uint32_t giving, taking, making; /* index of the current one, or the next to check */
    bool halted;                     /* a rank has died */
    bool gives, takes;               /* a transfer from here, or to here, is under way */
    size_t made;                     /* bytes done of the one being copied or read here */
    struct pack_list pack;           /* jobs of the one being read from the checkpoint */
    struct pack_run packing;         /* the run of these jobs */
    uint32_t packed;                 /* jobs of `pack` that are done */
    bool reads;                      /* one is being read from the checkpoint */
    struct move_checksum sum;        /* checksum of the one being copied or read here */
    struct model_moving reported;
};

static uint32_t moves_rank_of(const struct model *model, uint32_t slot) {
    return slot / model->placement.slots_per_rank;
}

static bool moves_is_own(const struct model *model, uint32_t slot) {
    return moves_rank_of(model, slot) == model->rank;
}

static enum role moves_role_of(const struct model *model, const struct expert_move *move) {
    bool here = moves_is_own(model, move->slot);
    if (move->expert == PLACEMENT_EMPTY) return ROLE_NONE;
    if (move->from == EXPERT_MOVE_FROM_CHECKPOINT) return here ? ROLE_READ : ROLE_NONE;
    if (moves_is_own(model, move->from)) return here ? ROLE_COPY : ROLE_GIVE;
    return here ? ROLE_TAKE : ROLE_NONE;
}

/* A slot's index among this rank's slots of all layers. */
static uint32_t own_slot(const struct model *model, uint32_t layer, uint32_t slot) {
    const struct weights *weights = &model->weights;
    const struct layer_weights *of =
        layer < model->shape->layers ? &weights->layers[layer] : &weights->mtp->block;
    check(of->is_moe && moves_is_own(model, slot));
    return of->first_slot + slot % model->placement.slots_per_rank;
}

static void end_reading(struct moves *moves) {
    if (moves->reads) pack_run_close(&moves->packing);
    moves->reads = false;
    moves->pack.count = 0;
}

static enum status open_copies(struct model *model, struct device_copies *copies,
                               struct error *error) {
    struct device *device = model->device;
    if (!device) return STATUS_OK;
    enum status status = device_open_stream(device, &copies->stream, error);
    for (uint32_t way = 0; way < COPY_WAYS && !status; way++) {
        void *memory = NULL;
        status = device_open_event(device, &copies->ways[way].done, error);
        if (status == STATUS_OK)
            status = device_allocate_pinned(device, model->weights.expert.slot_bytes,
                                            "an expert on its way", &memory, error);
        copies->ways[way].memory = memory;
    }
    return status;
}

/* Waits until no copy is under way. */
static void end_copies(struct model *model, struct device_copies *copies) {
    if (copies->stream) (void)device_synchronize_stream(model->device, copies->stream, NULL);
    for (uint32_t way = 0; way < COPY_WAYS; way++)
        copies->ways[way].begun = false;
}

static void close_copies(struct model *model, struct device_copies *copies) {
    end_copies(model, copies);
    for (uint32_t way = 0; way < COPY_WAYS && model->device; way++) {
        device_close_event(model->device, copies->ways[way].done);
        device_release(model->device, copies->ways[way].memory);
    }
    if (model->device) device_close_stream(model->device, copies->stream);
}

/* Copies an expert to, from or within the device. Returns false until the copy is complete. A
 * failure here also fails the engine's next step, which reports it. */
static bool is_copied(struct model *model, enum copy_way way, char *to, const char *from,
                      enum device_direction direction) {
    struct device_copies *copies = &model->moves->copies;
    struct device_event *done = copies->ways[way].done;
    if (!copies->ways[way].begun) {
        device_copy(model->device, copies->stream, to, from, model->weights.expert.slot_bytes,
                    direction);
        device_record(model->device, done, copies->stream);
        copies->ways[way].begun = true;
    }
    if (!device_event_done(model->device, done)) return false;
    copies->ways[way].begun = false;
    return true;
}

/* The host memory of an expert with destination `memory`. */
static char *on_host(const struct model *model, enum copy_way way, char *memory) {
    return model->device ? model->moves->copies.ways[way].memory : memory;
}

enum status moves_open(struct model *model, uint64_t bytes, struct error *error) {
    if (!model->placement.ranks || !bytes) return STATUS_OK;
    struct moves *moves = model->moves = calloc(1, sizeof *moves);
    if (moves) moves->spares = calloc(model->weights.spare_count, sizeof *moves->spares);
    if (!moves || !moves->spares)
        return error_set(error, STATUS_NO_MEMORY, "no memory for moves of experts");
    moves->spare_max = model->weights.spare_count;
    for (uint32_t i = moves->spare_max; i-- > 0;)
        moves->spares[moves->spare_count++] = weights_spare(&model->weights, i);
    enum status status = open_copies(model, &moves->copies, error);
    return status ? status : move_transport_open(&moves->transport, error);
}

void moves_close(struct model *model) {
    struct moves *moves = model->moves;
    if (!moves) return;
    if (moves->transport) move_transport_limit(moves->transport, 0);
    while (moves->reported.pending && !moves->halted) /* other ranks wait for our experts */
        moves_progress(model);
    if (moves->halted) moves_abandon(model);
    move_transport_close(moves->transport);
    close_copies(model, &moves->copies);
    free(moves->spares);
    end_reading(moves);
    pack_list_free(&moves->pack);
    free(moves->list);
    free(moves);
    model->moves = NULL;
}

static void moves_fail(struct model *model, const struct moving *moving, const char *why) {
    struct model_moving *reported = &model->moves->reported;
    const struct expert_move *move = &moving->move;
    reported->failed[move->layer / 64] |= UINT64_C(1) << move->layer % 64;
    if (reported->failures++) return;
    status_error_write(&reported->error, "expert %u of layer %u, which was to come to rank %u: %s",
                       move->expert, move->layer, model->rank, why);
}

static void end(struct moves *moves, size_t bytes) {
    moves->reported.pending--;
    moves->reported.moves++;
    moves->reported.bytes += bytes;
}

static uint32_t moves_next_of(const struct moves *moves, uint32_t from, enum role role,
                              enum role or_role) {
    while (from < moves->count && moves->list[from].role != role &&
           moves->list[from].role != or_role)
        from++;
    return from;
}

static char *source(const struct model *model, const struct expert_move *move) {
    return model->weights.slots[own_slot(model, move->layer, move->from)];
}

static void go_on_giving(struct model *model) {
    struct moves *moves = model->moves;
    if (move_transport_sent(moves->transport) == MOVE_IN_PROGRESS) return;
    if (moves->gives) {
        moves->giving++;
        moves->reported.pending--;
        moves->gives = false;
    }
    moves->giving = moves_next_of(moves, moves->giving, ROLE_GIVE, ROLE_GIVE);
    if (moves->giving == moves->count) return;
    const struct expert_move *move = &moves->list[moves->giving].move;
    char *data = on_host(model, COPY_GIVES, source(model, move));
    if (model->device && !is_copied(model, COPY_GIVES, data, source(model, move), DEVICE_TO_HOST))
        return;
    move_transport_send(moves->transport, moves_rank_of(model, move->slot), data,
                        model->weights.expert.slot_bytes);
    moves->gives = true;
}

/* Copies an expert from the host to the device. Returns false until the copy is complete. */
static bool has_landed(struct model *model, enum copy_way way, const struct moving *moving) {
    if (!model->device) return true;
    return is_copied(model, way, moving->memory, on_host(model, way, NULL), DEVICE_FROM_HOST);
}

/* Records that an expert is here, adopted or not, so that it is found after a restart. */
static void moves_remember(struct model *model, const struct moving *moving, uint64_t digest) {
    weights_remember(&model->weights, moving->memory, moving->move.layer, moving->move.expert,
                     digest);
}

static void go_on_taking(struct model *model) {
    struct moves *moves = model->moves;
    size_t bytes = model->weights.expert.slot_bytes;
    enum move_state state = move_transport_received(moves->transport);
    if (state == MOVE_IN_PROGRESS) return;
    if (moves->takes) {
        if (state == MOVE_COMPLETE && !has_landed(model, COPY_TAKES, &moves->list[moves->taking]))
            return;
        if (state == MOVE_COMPLETE)
            moves_remember(model, &moves->list[moves->taking],
                           move_transport_checksum(moves->transport));
        else
            moves_fail(model, &moves->list[moves->taking],
                       "its checksum differs from the giver's; it stays where it was");
        moves->taking++;
        end(moves, bytes);
    }
    moves->taking = moves_next_of(moves, moves->taking, ROLE_TAKE, ROLE_TAKE);
    moves->takes = moves->taking < moves->count;
    if (!moves->takes) return;
    const struct moving *moving = &moves->list[moves->taking];
    move_transport_receive(moves->transport, moves_rank_of(model, moving->move.from),
                           on_host(model, COPY_TAKES, moving->memory), bytes);
}

#define READ_BYTES ((size_t)256 << 10) /* of the checkpoint at a time: some tenths of a ms */

static enum status begin_reading(struct model *model, const struct moving *moving,
                                 struct error *error) {
    struct moves *moves = model->moves;
    struct expert_place place = {moving->move.layer, moving->move.expert,
                                 on_host(model, COPY_MAKES, moving->memory)};
    static const struct load_progress no_progress;
    moves->pack.piece_bytes = READ_BYTES;
    enum status status =
        weights_list_expert(&model->weights, model->checkpoint, place, &moves->pack, error);
    if (status != STATUS_OK) return status;
    moves->packed = 0;
    moves->reads = true;
    return pack_run_open(&moves->packing, &moves->pack, model->team, &no_progress, error);
}

/* Packs a piece of an expert from the checkpoint or, after all pieces, adds a chunk to the
 * checksum. Returns true after the last chunk. */
static bool read_some(struct model *model, const struct moving *moving, struct error *error,
                      enum status *status) {
    struct moves *moves = model->moves;
    size_t bytes = model->weights.expert.slot_bytes, left = bytes - moves->made;
    if (!moves->reads) *status = begin_reading(model, moving, error);
    if (*status != STATUS_OK) return true;
    if (moves->packed < moves->pack.count) {
        if (move_transport_allows(moves->transport,
                                  pack_job_bytes(&moves->pack.jobs[moves->packed])))
            *status = pack_run_jobs(&moves->packing, moves->packed++, 1, error);
        return *status != STATUS_OK;
    }
    size_t some = left < READ_BYTES ? left : READ_BYTES;
    const char *place_on_host = on_host(model, COPY_MAKES, moving->memory);
    if (moves->made < bytes) {
        if (!moves->made) move_checksum_begin(&moves->sum);
        move_checksum_add(&moves->sum, place_on_host + moves->made, some);
        moves->made += some;
    }
    return moves->made == bytes && has_landed(model, COPY_MAKES, moving);
}

/* Copies a chunk within this rank; on a device all at once. Returns true after the last chunk. */
static bool copy_some(struct model *model, const struct moving *moving) {
    struct moves *moves = model->moves;
    size_t bytes = model->weights.expert.slot_bytes, left = bytes - moves->made;
    if (model->device)
        return is_copied(model, COPY_MAKES, moving->memory, source(model, &moving->move),
                         DEVICE_WITHIN);
    size_t some = left < MOVE_CHUNK_BYTES ? left : MOVE_CHUNK_BYTES;
    if (!move_transport_allows(moves->transport, some)) return false;
    if (!moves->made) move_checksum_begin(&moves->sum);
    memcpy(moving->memory + moves->made, source(model, &moving->move) + moves->made, some);
    move_checksum_add(&moves->sum, moving->memory + moves->made, some);
    moves->made += some;
    return moves->made == bytes;
}

static void go_on_making(struct model *model) {
    struct moves *moves = model->moves;
    moves->making = moves_next_of(moves, moves->making, ROLE_COPY, ROLE_READ);
    if (moves->making == moves->count) return;
    const struct moving *moving = &moves->list[moves->making];
    struct error error;
    enum status status = STATUS_OK;
    if (moving->role == ROLE_READ ? !read_some(model, moving, &error, &status)
                                  : !copy_some(model, moving))
        return;
    end_reading(moves);
    if (status)
        moves_fail(model, moving, error.text);
    else if (moving->role == ROLE_READ || !model->device) /* a copy on a device has no checksum */
        moves_remember(model, moving, move_checksum_end(&moves->sum));
    moves->made = 0;
    moves->making++;
    end(moves, moving->role == ROLE_READ ? model->weights.expert.slot_bytes : 0);
}

void moves_progress(struct model *model) {
    struct moves *moves = model->moves;
    if (!moves || !moves->reported.pending || moves->halted) return;
    move_transport_progress(moves->transport);
    go_on_giving(model);
    go_on_taking(model);
    go_on_making(model);
}

void moves_begin(struct model *model, const struct expert_move *list, uint32_t count,
                 uint64_t bytes_per_second) {
    struct moves *moves = model->moves;
    check(moves && !moves->count && count);
    moves->list = realloc(moves->list, count * sizeof *moves->list);
    check(moves->list); /* dozens of bytes per move; without them the process ends */
    moves->count = count;
    moves->giving = moves->taking = moves->making = 0;
    moves->gives = moves->takes = false;
    moves->reported =
        (struct model_moving){.bytes = moves->reported.bytes, .moves = moves->reported.moves};
    for (uint32_t i = 0; i < count; i++) {
        struct moving *moving = &moves->list[i];
        *moving = (struct moving){.move = list[i]};
        moving->role = moves_role_of(model, &list[i]);
        moves->reported.pending += moving->role != ROLE_NONE;
        if (moving->role == ROLE_NONE || moving->role == ROLE_GIVE) continue;
        check(moves->spare_count > 0); /* the caller respects moves_room */
        moving->memory = moves->spares[--moves->spare_count];
        weights_forget(&model->weights, moving->memory);
    }
    move_transport_limit(moves->transport, bytes_per_second);
}

struct model_moving moves_reported(const struct model *model) {
    return model->moves ? model->moves->reported : (struct model_moving){0};
}

static void put(struct model *model, const struct moving *moving) {
    struct placement *placement = &model->placement;
    const struct expert_move *move = &moving->move;
    size_t slots = (size_t)placement->ranks * placement->slots_per_rank;
    placement->slot_expert[move->layer * slots + move->slot] = move->expert;
    if (moving->memory)
        model->moves->spares[model->moves->spare_count++] = weights_put_slot(
            &model->weights, own_slot(model, move->layer, move->slot), moving->memory);
}

void moves_adopt(struct model *model, const uint64_t *dropped) {
    struct moves *moves = model->moves;
    struct error error;
    uint32_t indexed = UINT32_MAX;
    check(moves && !moves->reported.pending);
    for (uint32_t i = 0; i < moves->count; i++) {
        const struct moving *moving = &moves->list[i];
        uint32_t layer = moving->move.layer;
        if (!(dropped[layer / 64] >> layer % 64 & 1))
            put(model, moving);
        else if (moving->memory)
            moves->spares[moves->spare_count++] = moving->memory;
    }
    for (uint32_t i = 0; i < moves->count; i++) {
        uint32_t layer = moves->list[i].move.layer;
        if (layer == indexed) continue;
        indexed = layer;
        enum status status = placement_index_layer(&model->placement, layer, &error);
        check(status == STATUS_OK); /* the caller leaves every expert a slot */
    }
    moves->count = 0;
}

void moves_halt(struct model *model) {
    if (model->moves) model->moves->halted = true;
}

void moves_abandon(struct model *model) {
    struct moves *moves = model->moves;
    if (!moves) return;
    end_reading(moves);
    end_copies(model, &moves->copies);
    move_transport_abandon(moves->transport);
    for (uint32_t i = 0; i < moves->count; i++)
        if (moves->list[i].memory) moves->spares[moves->spare_count++] = moves->list[i].memory;
    moves->count = 0;
    moves->reported.pending = 0;
    moves->made = 0;
    moves->gives = moves->takes = moves->halted = false;
}

void moves_set_map(struct model *model, const uint32_t *slot_expert) {
    struct placement *placement = &model->placement;
    struct error error;
    size_t slots = (size_t)placement->ranks * placement->slots_per_rank;
    size_t own = (size_t)model->rank * placement->slots_per_rank;
    check(!model->moves || !model->moves->count);
    for (uint32_t layer = 0; layer < placement->layers; layer++)
        check(memcmp(placement->slot_expert + layer * slots + own,
                     slot_expert + layer * slots + own,
                     placement->slots_per_rank * sizeof *slot_expert) == 0);
    memmove(placement->slot_expert, slot_expert, placement->layers * slots * sizeof *slot_expert);
    enum status status = placement_index(placement, &error);
    check(status == STATUS_OK); /* every expert had a slot, and no slot became empty */
}

uint32_t moves_room(const struct model *model) {
    return model->moves ? model->moves->spare_max : 0;
}
