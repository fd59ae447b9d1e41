/* eval.c - vklm-eval: token ids, logits and greedy tokens of a prompt, for comparing vklm with
 * another program or with itself.
 *
 * Prints two lines, the prompt's ids and the ids generated greedily, and writes a row of n_vocab
 * floats for every prompt position and every generated token. The row of a token is what the model
 * says after reading it, so the last one needs one forward pass more than drawing the tokens does:
 * one token more is generated, and its id dropped. Without a logits file the tokens are drawn on
 * the device, with no row read back.
 */
#include <stdlib.h>
#include <string.h>

#include "sample_setup.h"

typedef struct eval {
    sample_setup setup;
    const char *id_list, *logits_path;
    bool parse_special;
    int64_t n_generate, chunk;
    vklm_token *prompt; /* owned, as are the session and the file */
    size_t n_prompt;
    vklm_session *session;
    FILE *logits;
} eval;

static const char about[] =
    "    Reads a prompt from stdin, or ids with --ids, and prints two lines: the prompt's ids and\n"
    "    the ids that the model continues it with, each the likeliest (the lowest id on ties).\n"
    "    End tokens do not stop it.\n";

static const char after[] =
    "FILES\n"
    "    The logits file holds, for every position of the prompt and then for every generated\n"
    "    token, a row of as many little-endian 32-bit floats as the vocabulary has tokens.\n"
    "\n"
    ARGS_EXIT_STATUS "\n\n"
    "EXAMPLES\n"
    "    echo -n 'Once upon a time' | vklm-eval -m model.gguf -n 32\n"
    "    vklm-eval -m model.gguf --ids 1,15043,29892 --kv f32 --precision high -o logits.bin\n";

static int parse(eval *e, int argc, char **argv)
{
    const args_option options[] = {
        {ARGS_TEXT, "--ids", "ID,...", &e->id_list, 0, 0,
         "The prompt as token ids; stdin is not read, and the file needs no tokenizer."},
        {ARGS_FLAG, "--special", NULL, &e->parse_special, 0, 0,
         "The text of control tokens in the prompt becomes those tokens."},
        {ARGS_INTEGER, "-n, --tokens", "N", &e->n_generate, 0, 1e6,
         "Generate N tokens. Default: 16."},
        {ARGS_TEXT, "-o, --output", "FILE", &e->logits_path, 0, 0, "Write the logits to FILE."},
        {ARGS_INTEGER, "--chunk", "T", &e->chunk, 1, 512,
         "Digest at most T tokens of the prompt at once. Default: the library's choice."},
        SETUP_OPTIONS(&e->setup, "-d, --device"),
        CACHE_OPTION(&e->setup),
    };
    const args_program program = {
        .name = e->setup.program,
        .purpose = "logits and greedy tokens of a prompt",
        .synopsis = "-m FILE [--ids ID,... | < PROMPT] [OPTION]...",
        .about = about,
        .options = options,
        .n_options = sizeof options / sizeof *options,
        .after = after,
    };
    return args_parse(&program, argc, argv);
}

/* ---- Prompt --------------------------------------------------------------------------------- */

static void take_id(void *user, int64_t id)
{
    eval *e = user;
    e->prompt = must_realloc(e->prompt, (e->n_prompt + 1) * sizeof *e->prompt);
    e->prompt[e->n_prompt++] = (vklm_token)id;
}

static bool read_ids(eval *e)
{
    const uint32_t n_vocab = e->setup.info.n_vocab;
    const char *wrong = args_each_integer(e->id_list, 0, n_vocab - 1.0, take_id, e);
    if (wrong)
        setup_say(&e->setup, "--ids: no id at '%.20s'; ids are numbers from 0 to %u, with commas",
                  wrong, n_vocab - 1);
    return wrong == NULL;
}

static bool read_text(eval *e)
{
    sample_text text = {0};
    bool good = text_append_file(&text, stdin);
    if (!good) setup_say(&e->setup, "stdin cannot be read");
    const unsigned flags = VKLM_ADD_SPECIAL | (e->parse_special ? VKLM_PARSE_SPECIAL : 0);
    good = good && setup_tokenize(&e->setup, &text, flags, &e->prompt, &e->n_prompt) == VKLM_OK;
    free(text.bytes);
    return good;
}

static bool read_prompt(eval *e)
{
    if (!(e->id_list ? read_ids(e) : read_text(e))) return false;
    if (e->n_prompt == 0) setup_say(&e->setup, "the prompt is empty: give at least one token");
    return e->n_prompt > 0;
}

/* ---- Evaluation ----------------------------------------------------------------------------- */

/* Tokens to draw: one more where the last one's row is wanted. */
static uint32_t count_draws(const eval *e)
{
    return (uint32_t)e->n_generate + (e->logits && e->n_generate > 0 ? 1 : 0);
}

static bool make_session(eval *e)
{
    const uint64_t needed = e->n_prompt + count_draws(e), most = e->setup.info.context_length;
    if (needed > most) {
        setup_say(&e->setup,
                  "a prompt of %zu tokens and %u more do not fit the model's context of %u tokens: "
                  "shorten the prompt or give a smaller -n",
                  e->n_prompt, count_draws(e), (unsigned)most);
        return false;
    }
    vklm_error error;
    const vklm_session_params params = {
        .struct_size = sizeof params,
        .context = (uint32_t)(needed + 8 < most ? needed + 8 : most),
        .kv = (vklm_kv_type)e->setup.kv,
        .chunk = (uint32_t)e->chunk,
        .ids_only = true,
    };
    /* The repeat penalty is set to off, so that a recommendation in the file does not set it. */
    const vklm_generate_params generate = {
        .struct_size = sizeof generate,
        .max_tokens = count_draws(e),
        .prompt_only = e->n_generate == 0,
        .ignore_end = true,
        .want_logits = e->logits != NULL,
        .sampling = {.temperature = -1, .repeat_penalty = 1},
    };
    vklm_status status = vklm_session_create(e->setup.model, &params, &error, &e->session);
    if (status == VKLM_OK)
        status = vklm_session_set_ids(e->session, e->prompt, e->n_prompt, &error, NULL);
    if (status == VKLM_OK) status = vklm_session_generate(e->session, &generate, &error);
    if (status != VKLM_OK) setup_say(&e->setup, "%s", error.text);
    return status == VKLM_OK;
}

static bool write_row(const eval *e, const float *logits)
{
    const size_t n_vocab = e->setup.info.n_vocab;
    if (fwrite(logits, sizeof *logits, n_vocab, e->logits) == n_vocab) return true;
    setup_say(&e->setup, "%s cannot be written: is the disk full?", e->logits_path);
    return false;
}

/* Takes events to the end of the generation: prints ids, writes rows. */
static bool evaluate(eval *e)
{
    const size_t n_rows = e->logits ? e->n_prompt + (size_t)e->n_generate : 0;
    size_t rows = 0;
    int64_t tokens = 0;
    vklm_event event = {.kind = VKLM_EVENT_NONE};
    while (event.kind != VKLM_EVENT_DONE) {
        vklm_error error;
        if (session_next_event(e->session, &error, &event) != VKLM_OK) {
            setup_say(&e->setup, "%s", error.text);
            return false;
        }
        if (event.kind == VKLM_EVENT_TOKEN && tokens < e->n_generate)
            printf(tokens++ ? " %d" : "%d", (int)event.id);
        if (event.kind == VKLM_EVENT_LOGITS && rows < n_rows && !write_row(e, event.logits))
            return false;
        rows += event.kind == VKLM_EVENT_LOGITS;
    }
    printf("\n");
    if (tokens == e->n_generate && rows >= n_rows) return true;
    setup_say(&e->setup, "ended early, with %d of %d tokens and %zu of %zu rows of logits",
              (int)tokens, (int)e->n_generate, rows, n_rows);
    return false;
}

static bool run(eval *e)
{
    if (setup_open(&e->setup) != VKLM_OK || !read_prompt(e)) return false;
    if (e->logits_path && !(e->logits = file_open(e->logits_path, "wb"))) {
        setup_say(&e->setup, "%s cannot be created", e->logits_path);
        return false;
    }
    if (!make_session(e)) return false;
    for (size_t i = 0; i < e->n_prompt; i++) printf(i ? " %d" : "%d", (int)e->prompt[i]);
    printf("\n");
    if (!evaluate(e)) return false;
    FILE *logits = e->logits;
    e->logits = NULL;
    const bool written = !logits || fclose(logits) == 0;
    if (!written) setup_say(&e->setup, "%s cannot be written: is the disk full?", e->logits_path);
    return written;
}

int main(int argc, char **argv)
{
    eval e = {.setup.program = "vklm-eval", .n_generate = 16};
    const int parsed = parse(&e, argc, argv);
    if (parsed != ARGS_GO) return parsed;
    if (e.setup.list_devices) return setup_list_devices(&e.setup);
    if (!setup_has_model(&e.setup)) return ARGS_USAGE;

    const bool good = run(&e);
    if (e.logits) fclose(e.logits);
    vklm_session_destroy(&e.session);
    setup_close(&e.setup);
    free(e.prompt);
    return good ? 0 : 1;
}
