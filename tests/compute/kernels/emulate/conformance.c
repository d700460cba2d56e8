/* SPDX-License-Identifier: Apache-2.0
 * What each wrapper of compute/kernels/cuda/gpu.cuh leaves, beside what was recorded from the
 * emulator: the first thing that a GPU is asked, as one reader wrote both bodies of a wrapper. A
 * case that the machine has to get to the bit has a checksum; where it rounds in a way of its own
 * (wgmma's sums, 2^x), the deviation from the exact value has a bound.
 *
 *   conformance emulated|cuda FILE    compares; 1 if a case differs
 *   conformance emulated record       prints what FILE is to have
 *
 * Verified by emulation; not yet run on a GPU.
 */
#include "wrappers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/number.h"
#include "compute/device/device.h"
#ifdef CONFORMANCE_EMULATED
#include "compute/emulated/device_emulated.h"
#include "compute/kernels/emulate/emulate.h"
#endif

#define IN_WORDS 16384u
#define OUT_WORDS 16384u /* 64 x 256 floats */
#define NUMBERS 64u

/* A case's arguments; the device's memory comes first. */
struct arguments {
    uint32_t *in, *out;
    uint32_t of, n; /* dimensions of a box; form and columns of a product */
};

struct conformance_case {
    const char *name;
    uint32_t of, n, in_words, out_words;
    void (*start)(const void *arguments, void *stream);
    void (*fill)(uint32_t *in, uint32_t count);
    /* How far the output is off, in parts of what is allowed; NULL: the checksum says all. */
    double (*deviation)(const struct conformance_case *of, const uint32_t *in,
                        const uint32_t *before, const uint32_t *out);
};

static uint64_t random_state;

static uint32_t draw(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

/* About normal. */
static float draw_number(void) {
    float sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (float)(draw() >> 16) * 0x1p-16f - 0.5f;
    return sum;
}

/* ---- cases ---- */

static void fill_words(uint32_t *in, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        in[i] = draw();
}

static void start_memory(const void *arguments, void *stream) {
    const struct arguments *of = arguments;
    wrappers_memory(stream, of->in, of->out, 2, 0);
}

static void start_together(const void *arguments, void *stream) {
    const struct arguments *of = arguments;
    wrappers_together(stream, of->in, of->out, 0);
}

static void start_add(const void *arguments, void *stream) {
    const struct arguments *of = arguments;
    wrappers_add(stream, of->in, of->out, 0);
}

static void start_copy(const void *arguments, void *stream) {
    const struct arguments *of = arguments;
    wrappers_copy(stream, of->in, of->out, 0);
}

/* A tensor of bytes, 200 x 5 x 4 x 3 in rows of 208, read from before its begin to behind its end;
 * swizzled. */
static void start_box(const void *arguments, void *stream) {
    static const uint32_t sizes[] = {200, 5, 4, 3}, sides[] = {128, 4, 2, 2};
    static const int32_t at[] = {80, -1, 3, 2};
    const struct arguments *of = arguments;
    struct tensor_map_form form = {
        .base = of->in, .type = MAP_ELEMENT_BYTE, .dimensions = of->of, .swizzle = true};
    struct tensor_map map;
    uint64_t pitch = 208;
    uint32_t rows = 1;
    for (uint32_t i = 0; i < of->of; i++) {
        form.size[i] = sizes[i];
        form.box[i] = sides[i];
        if (i) pitch *= sizes[i];
        if (i) rows *= sides[i];
        if (i + 1 < of->of) form.pitch[i] = i ? pitch : 208;
    }
    check(tensor_map_make(&map, &form));
    wrappers_box(stream, &map, of->of, at, rows, of->out, 0);
}

static void start_product(const void *arguments, void *stream) {
    const struct arguments *of = arguments;
    enum wgmma_form form = (enum wgmma_form)of->of;
    bool turned = form == FORM_BF16_TRANSPOSED || form == FORM_REGISTERS_TRANSPOSED;
    enum map_element element = form == FORM_E4M3 ? MAP_ELEMENT_BYTE : MAP_ELEMENT_BF16;
    uint32_t k = form == FORM_E4M3 ? 128 : 64;
    struct tensor_map a, b;
    char *rows = (char *)of->in, *columns = rows + 64 * 128;
    check(tensor_map_make_matrix(&a, rows, element, k, 64, 128, k, 64));
    check(tensor_map_make_matrix(&b, columns, element, turned ? of->n : k, turned ? 64 : of->n,
                                 turned ? of->n * 2 : 128, k, 64));
    wrappers_wgmma(stream, form, of->n, &a, &b, (const uint16_t *)(const void *)rows,
                   (float *)(void *)of->out, 0);
}

static void fill_bf16(uint32_t *in, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        in[i] = bf16_from_float(draw_number()) | (uint32_t)bf16_from_float(draw_number()) << 16;
}

static void fill_e4m3(uint32_t *in, uint32_t count) {
    for (uint32_t i = 0; i < count * 4; i++)
        ((uint8_t *)in)[i] = e4m3_from_float(draw_number());
}

static double operand(const struct conformance_case *of, const uint32_t *from, uint32_t at) {
    uint16_t half;
    if (of->of == FORM_E4M3) return (double)float_from_e4m3(((const uint8_t *)from)[at]);
    memcpy(&half, (const char *)from + 2 * at, sizeof half);
    return (double)float_from_bf16(half);
}

/* Beside d + a b: 1e-6 of |d| + |a||b| for BF16, four sums cut to 13 bits for E4M3. */
static double product_deviation(const struct conformance_case *of, const uint32_t *in,
                                const uint32_t *before, const uint32_t *out) {
    bool turned = of->of == FORM_BF16_TRANSPOSED || of->of == FORM_REGISTERS_TRANSPOSED;
    uint32_t k_count = of->of == FORM_E4M3 ? 128 : 64;
    double largest = 0;
    for (uint32_t i = 0; i < 64 * of->n; i++) {
        uint32_t row = i / of->n, column = i % of->n;
        double sum = (double)float_from_bits(before[i]), size = fabs(sum);
        for (uint32_t k = 0; k < k_count; k++) {
            uint32_t b = turned ? k * of->n + column : column * k_count + k;
            double part = operand(of, in, row * k_count + k) * operand(of, in + 64 * 32, b);
            sum += part;
            size += fabs(part);
        }
        double off = fabs(sum - (double)float_from_bits(out[i])) / size;
        largest = off <= largest ? largest : off; /* not a number, too */
    }
    return largest / (of->of == FORM_E4M3 ? 4 * 33.0 / 8192 : 1e-6);
}

static void start_numbers(const void *arguments, void *stream) {
    const struct arguments *of = arguments;
    wrappers_numbers(stream, (const float *)(const void *)of->in, of->out, NUMBERS);
}

/* Positive ones, as a root wants them: ordinary, subnormal, large. */
static void fill_numbers(uint32_t *in, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        in[i] =
            i % 8 == 7 ? draw() >> 10 : float_bits(fabsf(draw_number()) * (i % 8 == 6 ? 1e4f : 8));
}

/* Of 2^x alone, which the checksum leaves out: 2^-21 of it. */
static double numbers_deviation(const struct conformance_case *of, const uint32_t *in,
                                const uint32_t *before, const uint32_t *out) {
    double largest = 0;
    for (uint32_t i = 0; i < NUMBERS; i++) {
        double exact = exp2((double)float_from_bits(in[i]));
        double found = (double)float_from_bits(out[i * WRAPPERS_NUMBERS + WRAPPERS_NUMBERS - 1]);
        double off = exact > 3e38 ? !isinf(found) : fabs(found / exact - 1) * 0x1p21;
        largest = off <= largest ? largest : off;
    }
    return largest;
}

#define PRODUCT(form, n, fill)                                                                     \
    { #form " " #n, form, n, 64 * 32 + n * 32, 64 * n, start_product, fill, product_deviation }

static const struct conformance_case cases[] = {
    {"plain memory", 0, 0, 256, 256, start_memory, fill_words, NULL},
    {"shuffles, votes, barriers", 0, 0, 128, 512, start_together, fill_words, NULL},
    {"additions", 0, 0, 128, 132, start_add, fill_words, NULL},
    {"cp.async", 0, 0, 512, 512, start_copy, fill_words, NULL},
    {"boxes of 2 dimensions", 2, 0, 3120, 4 * 32, start_box, fill_words, NULL},
    {"boxes of 3 dimensions", 3, 0, 3120, 8 * 32, start_box, fill_words, NULL},
    {"boxes of 4 dimensions", 4, 0, 3120, 16 * 32, start_box, fill_words, NULL},
    {"numbers", 0, 0, NUMBERS, NUMBERS *WRAPPERS_NUMBERS, start_numbers, fill_numbers,
     numbers_deviation},
    PRODUCT(FORM_E4M3, 64, fill_e4m3),
    PRODUCT(FORM_E4M3, 128, fill_e4m3),
    PRODUCT(FORM_BF16, 64, fill_bf16),
    PRODUCT(FORM_BF16, 128, fill_bf16),
    PRODUCT(FORM_BF16, 256, fill_bf16),
    PRODUCT(FORM_BF16_TRANSPOSED, 64, fill_bf16),
    PRODUCT(FORM_BF16_TRANSPOSED, 128, fill_bf16),
    PRODUCT(FORM_BF16_TRANSPOSED, 256, fill_bf16),
    PRODUCT(FORM_REGISTERS, 64, fill_bf16),
    PRODUCT(FORM_REGISTERS, 128, fill_bf16),
    PRODUCT(FORM_REGISTERS, 256, fill_bf16),
    PRODUCT(FORM_REGISTERS_TRANSPOSED, 64, fill_bf16),
    PRODUCT(FORM_REGISTERS_TRANSPOSED, 128, fill_bf16),
    PRODUCT(FORM_REGISTERS_TRANSPOSED, 256, fill_bf16),
};

/* ---- running ---- */

struct bench {
    struct device *device;
    struct device_stream *stream;
    uint32_t *in, *out, *host; /* host: in, what out has before, out */
};

static void expect(enum status status, const struct error *error) {
    if (status == STATUS_OK) return;
    fprintf(stderr, "conformance: %s\n", error->text);
    exit(1);
}

static enum status open_device(const char *name, struct device **device_out, struct error *error) {
    if (!strcmp(name, "cuda")) return device_open_cuda(0, device_out, error);
#ifdef CONFORMANCE_EMULATED
    static const struct device_watch watch = {emulate_memory_add, emulate_memory_drop};
    struct device_emulation emulation = {.memory_bytes = 64 << 20, .watch = &watch};
    return device_emulated_open(&emulation, device_out, error);
#else
    return error_set(error, STATUS_UNSUPPORTED,
                     "this program's wrappers are a GPU's: expected cuda");
#endif
}

static struct bench open_bench(const char *name) {
    struct bench bench;
    struct error error;
    void *in, *out, *host;
    expect(open_device(name, &bench.device, &error), &error);
    expect(device_open_stream(bench.device, &bench.stream, &error), &error);
    expect(device_allocate(bench.device, IN_WORDS * 4, "inputs", &in, &error), &error);
    expect(device_allocate(bench.device, OUT_WORDS * 4, "outputs", &out, &error), &error);
    expect(device_allocate_pinned(bench.device, (IN_WORDS + 2 * OUT_WORDS) * 4, "on the host",
                                  &host, &error),
           &error);
    bench.in = in;
    bench.out = out;
    bench.host = host;
    return bench;
}

static void close_bench(struct bench *bench) {
    device_release(bench->device, bench->in);
    device_release(bench->device, bench->out);
    device_release(bench->device, bench->host);
    device_close_stream(bench->device, bench->stream);
    device_close(bench->device);
}

/* The output is in host + IN_WORDS + OUT_WORDS then. */
static void run_case(const struct bench *bench, const struct conformance_case *of) {
    struct arguments arguments = {bench->in, bench->out, of->of, of->n};
    struct device_kernel kernel = {of->name, 2, of->start};
    uint32_t *before = bench->host + IN_WORDS, *out = before + OUT_WORDS;
    struct error error;
    random_state = 1;
    of->fill(bench->host, of->in_words);
    for (uint32_t i = 0; i < of->out_words; i++)
        before[i] = float_bits(draw_number());
    device_copy(bench->device, bench->stream, bench->in, bench->host, of->in_words * 4,
                DEVICE_FROM_HOST);
    device_copy(bench->device, bench->stream, bench->out, before, of->out_words * 4,
                DEVICE_FROM_HOST);
    device_launch(bench->device, bench->stream, &kernel, &arguments, sizeof arguments);
    device_copy(bench->device, bench->stream, out, bench->out, of->out_words * 4, DEVICE_TO_HOST);
    expect(device_synchronize_stream(bench->device, bench->stream, &error), &error);
}

/* FNV-1a, but for 2^x. */
static uint64_t checksum(const struct conformance_case *of, const uint32_t *out) {
    uint64_t sum = 0xCBF29CE484222325u;
    for (uint32_t i = 0; i < of->out_words; i++) {
        if (of->start == start_numbers && i % WRAPPERS_NUMBERS == WRAPPERS_NUMBERS - 1) continue;
        sum = (sum ^ out[i]) * 0x100000001B3u;
    }
    return sum;
}

/* Prints how a case compares; returns whether it conforms. */
static bool compare(const struct conformance_case *of, const struct bench *bench,
                    uint64_t recorded) {
    const uint32_t *before = bench->host + IN_WORDS, *out = before + OUT_WORDS;
    bool same = checksum(of, out) == recorded;
    double off = of->deviation ? of->deviation(of, bench->host, before, out) : 0;
    bool bound_alone = of->start == start_product;
    bool conforms = (same || bound_alone) && off <= 1;
    printf("%-32s %s, %s", of->name, conforms ? "conforms" : "DIFFERS",
           same ? "the recorded bits" : "other bits than recorded");
    if (of->deviation) printf(", %.3f of its bound", off);
    printf("\n");
    return conforms;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: conformance emulated|cuda FILE|record\n");
        return 2;
    }
    bool records = !strcmp(argv[2], "record"), conforms = true;
    FILE *file = records ? NULL : fopen(argv[2], "r");
    if (!records && !file) {
        fprintf(stderr, "conformance: cannot read %s\n", argv[2]);
        return 2;
    }
    struct bench bench = open_bench(argv[1]);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char line[200], *end;
        run_case(&bench, &cases[i]);
        uint64_t found = checksum(&cases[i], bench.host + IN_WORDS + OUT_WORDS);
        if (records) {
            printf("%016" PRIx64 " %s\n", found, cases[i].name);
            continue;
        }
        if (!fgets(line, sizeof line, file)) line[0] = 0;
        uint64_t recorded = strtoull(line, &end, 16);
        line[strcspn(line, "\n")] = 0;
        if (*end != ' ' || strcmp(end + 1, cases[i].name) != 0) {
            fprintf(stderr, "conformance: %s: expected the line of '%s', found '%s'\n", argv[2],
                    cases[i].name, line);
            return 2;
        }
        conforms &= compare(&cases[i], &bench, recorded);
    }
    close_bench(&bench);
    if (file) fclose(file);
    return !conforms;
}
