/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/constraint/constraint.h"

#include "serving/grammar/schema/schema.h"

static const char name[] = "constraint"; /* the text's name in error messages */

/* Sets *token_out to the token that the member `key` names; TOKEN_NONE if the member is absent. */
static enum status constraint_find_token(const struct tree *root, const char *key,
                                         const struct tokenizer *tokenizer, uint32_t *token_out,
                                         struct error *error) {
    const struct tree *value = tree_member(root, key);
    struct bytes text;
    *token_out = TOKEN_NONE;
    if (!value) return STATUS_OK;
    if (!tree_get_string(value, &text))
        return error_set(error, STATUS_INVALID, "%s: \"%s\" must be a token's text, found %s", name,
                         key, tree_name(value));
    uint32_t token;
    if (tokenizer && tokenizer_find_added(tokenizer, text, &token)) {
        *token_out = token;
        return STATUS_OK;
    }
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: \"%s\" must be an added token of the model's tokenizer; it has no '%.*s'",
                     name, key, (int)(text.count < 64 ? text.count : 64), text.data);
}

static enum status constraint_check_members(const struct tree *root, struct error *error) {
    struct tree_cursor cursor = {NULL};
    struct bytes key;
    const struct tree *value;
    if (tree_kind(root) != TREE_OBJECT)
        return error_set(error, STATUS_INVALID, "%s: expected an object, found %s", name,
                         tree_name(root));
    while (tree_next_member(root, &cursor, &key, &value))
        if (!bytes_equal(key, BYTES_LITERAL("form")) && !bytes_equal(key, BYTES_LITERAL("opens")) &&
            !bytes_equal(key, BYTES_LITERAL("behind")) && !bytes_equal(key, BYTES_LITERAL("at")))
            return error_set(error, STATUS_INVALID,
                             "%s: expected form, opens, behind and at, found \"%.*s\"", name,
                             (int)(key.count < 64 ? key.count : 64), key.data);
    if (!tree_member(root, "form"))
        return error_set(error, STATUS_INVALID, "%s: \"form\" is missing", name);
    if (tree_member(root, "opens") && !tree_member(root, "behind"))
        return error_set(error, STATUS_INVALID, "%s: \"opens\" needs \"behind\"", name);
    return STATUS_OK;
}

static enum status constraint_compile_members(struct arena *arena, struct arena *scratch,
                                              const struct tree *root,
                                              const struct tokenizer *tokenizer,
                                              const struct constraint **out, struct error *error) {
    struct constraint *constraint = arena_take_zeroed(arena, sizeof *constraint);
    if (!constraint) return error_set(error, STATUS_NO_MEMORY, "no memory for a constraint");
    enum status status = constraint_check_members(root, error);
    if (!status)
        status = constraint_find_token(root, "opens", tokenizer, &constraint->opens, error);
    if (!status)
        status = constraint_find_token(root, "behind", tokenizer, &constraint->behind, error);
    if (!status) status = constraint_find_token(root, "at", tokenizer, &constraint->at, error);
    if (!status)
        status = form_compile(arena, scratch, tree_member(root, "form"), tokenizer,
                              &schema_limits_usual, &constraint->form, error);
    if (!status) *out = constraint;
    return status;
}

enum status constraint_compile(struct arena *arena, struct arena *scratch, struct bytes text,
                               const struct tokenizer *tokenizer, const struct constraint **out,
                               struct error *error) {
    /* The input may be in `scratch`. Everything allocated here is in `rest` and freed on return. */
    struct arena rest = *scratch;
    if (scratch->pool) arena_open(&rest, scratch->pool);
    const struct tree *root;
    enum status status = tree_parse(&rest, text, name, &root, error);
    if (!status) status = constraint_compile_members(arena, &rest, root, tokenizer, out, error);
    if (scratch->pool) arena_clear(&rest);
    return status;
}
