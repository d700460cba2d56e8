// SPDX-License-Identifier: Apache-2.0
// The same lines as check_schemas.c, answered by llama.cpp's own grammars: for `./dev schemas
// --peer`, whose driver check_schemas.py compiles this file against a llama.cpp that stands beside. Fathom
// never links it, and no build of Fathom needs it.
//
// Each line is answered by a process of its own, which may take LINE_SECONDS: a grammar may be more
// than the peer's recursion holds, or its time. Masks are made as its sampler makes them, over the
// whole vocabulary; they are slow, so only before one of so many tokens. All times are
// processor time.
//
// usage: peer_grammar VOCABULARY.GGUF ONE-IN
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "json-schema-to-grammar.h"
#include "json.h"
#include "llama.h"

static const unsigned LINE_SECONDS = 60;

static int64_t spent_ns() {
    timespec spent = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    return (int64_t)spent.tv_sec * 1000000000 + spent.tv_nsec;
}

struct peer {
    const llama_vocab *vocab;
    size_t every;
    std::vector<llama_token_data> candidates; // one for each token
    std::string masks;                        // times of this line, with commas between
    int64_t mask_worst_ns;
};

static void time_mask(peer &peer, llama_sampler *grammar) {
    for (size_t t = 0; t < peer.candidates.size(); t++)
        peer.candidates[t] = {(llama_token)t, 0.0f, 0.0f};
    llama_token_data_array all = {peer.candidates.data(), peer.candidates.size(), -1, false};
    int64_t start = spent_ns();
    llama_sampler_apply(grammar, &all);
    int64_t ns = spent_ns() - start;
    peer.masks += (peer.masks.empty() ? "" : ",") + std::to_string(ns);
    peer.mask_worst_ns = std::max(peer.mask_worst_ns, ns);
}

static bool may_end(const peer &peer, llama_sampler *grammar) {
    llama_token_data end = {llama_vocab_eos(peer.vocab), 0.0f, 0.0f};
    llama_token_data_array one = {&end, 1, -1, false};
    llama_sampler_apply(grammar, &one);
    return !std::isinf(end.logit);
}

static std::vector<llama_token> tokens_of(const peer &peer, const std::string &text) {
    std::vector<llama_token> tokens(text.size() + 1);
    int32_t count = llama_tokenize(peer.vocab, text.data(), (int32_t)text.size(), tokens.data(),
                                   (int32_t)tokens.size(), false, false);
    if (count < 0) throw std::runtime_error("the tokenizer refuses a text");
    tokens.resize((size_t)count);
    return tokens;
}

static size_t bytes_of(const peer &peer, llama_token token) {
    char piece[256];
    int32_t count = llama_token_to_piece(peer.vocab, token, piece, sizeof piece, 0, true);
    return (size_t)std::abs(count);
}

// Bytes let through; one more than the text has: it may end.
static size_t run_text(peer &peer, const llama_sampler *fresh, const std::string &text) {
    llama_sampler *grammar = llama_sampler_clone(fresh);
    std::vector<llama_token> tokens = tokens_of(peer, text);
    size_t at = 0;
    try {
        for (size_t i = 0; i < tokens.size(); i++) {
            if (i % peer.every == 0) time_mask(peer, grammar);
            llama_sampler_accept(grammar, tokens[i]);
            at += bytes_of(peer, tokens[i]);
        }
        at += may_end(peer, grammar);
    } catch (const std::runtime_error &) { // its grammars throw where a token may not come
    }
    llama_sampler_free(grammar);
    return at;
}

static std::string answer(peer &peer, const std::string &line) {
    common_json root = common_json::parse(line);
    std::string error, at;
    llama_sampler *grammar = nullptr;
    int64_t start = spent_ns();
    try {
        std::string gbnf = json_schema_to_grammar(root.at("schema"), true);
        grammar = llama_sampler_init_grammar(peer.vocab, gbnf.c_str(), "root");
        if (!grammar) error = "its grammar cannot be read";
    } catch (const std::exception &thrown) {
        error = thrown.what();
    }
    int64_t ns = spent_ns() - start;
    for (const auto &text : root.at("texts")) {
        if (!grammar) break;
        at += (at.empty() ? "" : ",") +
              std::to_string(run_text(peer, grammar, text.get<std::string>()));
    }
    return "{\"compile_ns\":" + std::to_string(ns) + ",\"status\":\"" +
           (grammar ? "ok" : "unsupported") + "\",\"error\":" + common_json(error).dump() +
           ",\"at\":[" + at + "],\"mask_worst_ns\":" + std::to_string(peer.mask_worst_ns) +
           ",\"mask_ns\":[" + peer.masks + "]}\n";
}

static void answer_apart(peer &peer, const std::string &line) {
    int state = 0;
    pid_t child = fork();
    if (child == 0) {
        // The peer prints each grammar that it cannot read.
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        rlimit limit = {LINE_SECONDS, LINE_SECONDS + 1};
        if (setrlimit(RLIMIT_CPU, &limit)) _exit(1);
        std::cout << answer(peer, line) << std::flush;
        _exit(0);
    }
    if (child < 0 || waitpid(child, &state, 0) != child) throw std::runtime_error("no process");
    if (state == 0) return;
    bool late = WIFSIGNALED(state) && WTERMSIG(state) == SIGXCPU;
    std::cout << "{\"compile_ns\":0,\"status\":\"" << (late ? "late" : "died")
              << "\",\"error\":\"\",\"at\":[],\"mask_worst_ns\":0,\"mask_ns\":[]}" << std::endl;
}

int main(int argc, char **argv) {
    peer peer = {};
    std::string line;
    if (argc != 3) {
        std::cerr << "usage: peer_grammar VOCABULARY.GGUF ONE-IN\n";
        return 2;
    }
    llama_log_set([](enum ggml_log_level, const char *, void *) {}, nullptr);
    llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    llama_model *model = llama_model_load_from_file(argv[1], params);
    if (!model) {
        std::cerr << "peer_grammar: llama.cpp cannot read " << argv[1] << "\n";
        return 1;
    }
    peer.vocab = llama_model_get_vocab(model);
    peer.every = std::stoul(argv[2]);
    peer.candidates.resize((size_t)llama_vocab_n_tokens(peer.vocab));
    while (std::getline(std::cin, line))
        answer_apart(peer, line);
    std::cout << "{}" << std::endl;
    llama_model_free(model);
    return 0;
}
