/* tokens.c - vklm-tokens: text from stdin to token ids, and back. Needs no GPU; vocabulary-only
 * files will do. The text is taken and given byte for byte.
 */
#include <stdlib.h>
#include <string.h>

#include "sample_setup.h"

typedef struct tokens {
    sample_setup setup; /* the model's path and the program's name alone are used */
    vklm_vocab *vocab;  /* owned, as are the rest */
    sample_text input, text;
    vklm_token *ids;
    size_t n_ids, capacity;
    bool bos, special, decode;
} tokens;

static const char about[] =
    "    Reads text from stdin and prints its token ids on one line; with --decode, reads ids and\n"
    "    prints their text. Neither adds or drops a byte, a newline at the end included.\n";

static const char after[] =
    ARGS_EXIT_STATUS "\n\n"
    "EXAMPLES\n"
    "    echo -n 'Once upon a time' | vklm-tokens -m model.gguf\n"
    "    echo 6403 1980 253 655 | vklm-tokens -m model.gguf --decode\n";

static int parse(tokens *t, int argc, char **argv)
{
    const args_option options[] = {
        {ARGS_TEXT, "-m, --model", "FILE", &t->setup.model_path, 0, 0,
         "A GGUF file with a tokenizer."},
        {ARGS_FLAG, "--bos", NULL, &t->bos, 0, 0,
         "Add the begin and end tokens that the file asks for."},
        {ARGS_FLAG, "--special", NULL, &t->special, 0, 0,
         "The text of control tokens becomes those tokens; with --decode, show them."},
        {ARGS_FLAG, "--decode", NULL, &t->decode, 0, 0,
         "From ids, parted by blanks or commas, to text."},
    };
    const args_program program = {
        .name = t->setup.program,
        .purpose = "text to token ids and back",
        .synopsis = "-m FILE [--decode] [OPTION]... < INPUT",
        .about = about,
        .options = options,
        .n_options = sizeof options / sizeof *options,
        .after = after,
    };
    const int parsed = args_parse(&program, argc, argv);
    if (parsed != ARGS_GO) return parsed;
    if (t->decode && t->bos)
        return args_complain(t->setup.program, "--bos adds nothing to --decode");
    return setup_has_model(&t->setup) ? ARGS_GO : ARGS_USAGE;
}

static vklm_status encode(tokens *t, vklm_error *error)
{
    const unsigned flags =
        (t->bos ? VKLM_ADD_SPECIAL : 0u) | (t->special ? VKLM_PARSE_SPECIAL : 0u);
    const char *text = t->input.bytes;
    vklm_status status =
        vklm_tokenize(t->vocab, text, t->input.len, flags, error, NULL, 0, &t->n_ids);
    if (status == VKLM_BUFFER_TOO_SMALL) {
        t->ids = must_realloc(NULL, t->n_ids * sizeof *t->ids);
        status =
            vklm_tokenize(t->vocab, text, t->input.len, flags, error, t->ids, t->n_ids, &t->n_ids);
    }
    for (size_t i = 0; status == VKLM_OK && i < t->n_ids; i++)
        printf(i ? " %d" : "%d", (int)t->ids[i]);
    if (status == VKLM_OK) printf("\n");
    return status;
}

static void take_id(void *user, int64_t id)
{
    tokens *t = user;
    if (t->n_ids == t->capacity) {
        t->capacity = 2 * t->capacity + 64;
        t->ids = must_realloc(t->ids, t->capacity * sizeof *t->ids);
    }
    t->ids[t->n_ids++] = (vklm_token)id;
}

static bool read_ids(tokens *t)
{
    const double most = vklm_vocab_size(t->vocab) - 1.0;
    const char *list = t->input.bytes;
    if (list[strspn(list, " \t\r\n")] == '\0') return true;
    const char *wrong = args_each_integer(list, 0, most, take_id, t);
    if (wrong)
        setup_say(&t->setup,
                  "no id at '%.20s'; ids are numbers from 0 to %.0f, with blanks or commas", wrong,
                  most);
    return wrong == NULL;
}

static vklm_status decode(tokens *t, vklm_error *error)
{
    size_t len = 0;
    vklm_status status =
        vklm_detokenize(t->vocab, t->ids, t->n_ids, t->special, error, NULL, 0, &len);
    if (status == VKLM_BUFFER_TOO_SMALL) {
        t->text.bytes = must_realloc(NULL, len);
        status = vklm_detokenize(t->vocab, t->ids, t->n_ids, t->special, error, t->text.bytes, len,
                                 &len);
        if (status == VKLM_OK) fwrite(t->text.bytes, 1, len, stdout);
    }
    return status;
}

static void print_warning(void *user, vklm_log_level level, const char *line)
{
    if (level == VKLM_LOG_WARNING) setup_say(user, "warning: %s", line);
}

static bool run(tokens *t)
{
    vklm_error error = {.status = VKLM_OK};
    const vklm_vocab_params params = {.struct_size = sizeof params,
                                      .path = t->setup.model_path,
                                      .log = {.write = print_warning, .user = &t->setup}};
    vklm_status status = vklm_vocab_open(&params, &error, &t->vocab);
    if (status == VKLM_OK) {
        text_append(&t->input, "", 0);
        if (!text_append_file(&t->input, stdin)) {
            setup_say(&t->setup, "stdin cannot be read");
            return false;
        }
        if (t->decode && !read_ids(t)) return false;
        status = t->decode ? decode(t, &error) : encode(t, &error);
    }
    if (status != VKLM_OK) {
        setup_say(&t->setup, "%s", error.text);
    } else if (fflush(stdout) != 0) {
        setup_say(&t->setup, "stdout cannot be written");
        return false;
    }
    return status == VKLM_OK;
}

int main(int argc, char **argv)
{
    tokens t = {.setup.program = "vklm-tokens"};
    const int parsed = parse(&t, argc, argv);
    if (parsed != ARGS_GO) return parsed;
    const bool good = run(&t);
    vklm_vocab_destroy(&t.vocab);
    free(t.input.bytes);
    free(t.text.bytes);
    free(t.ids);
    return good ? 0 : 1;
}
