/* runtime/session/repetition: detection of answers that repeat themselves. */

#include "tests/test.h"

#include "runtime/session/repetition.h"

enum { N = 2000 };

/* n tokens that do not repeat, then a repeated piece, in which every `wrong`-th token is different;
 * wrong 0: none. */
static void make(int32_t *ids, int n, int piece, int wrong)
{
    for (int i = 0; i < n; i++) ids[i] = 1000 + i;
    for (int i = n; i < N; i++) ids[i] = wrong && i % wrong == 0 ? 5000 + i : ids[i - piece];
}

/* Any period ends the answer once its phrases were written three times before. */
TEST(test_pieces)
{
    int32_t ids[N];
    for (int piece = REPETITION_SHORT + 1; piece <= REPETITION_BEFORE / 3; piece++) {
        int end = 300 + 2 * piece + REPETITION_TOKENS;
        make(ids, 300, piece, 0);
        assert_true(repetition_found(ids, N));
        assert_true(repetition_found(ids, (size_t)end));
        assert_false(repetition_found(ids, (size_t)(end - REPETITION_NEW - REPETITION_PHRASE)));
    }
    make(ids, 300, REPETITION_BEFORE / 3 + 1, 0);
    assert_false(repetition_found(ids, N));
}

/* Sentences in any order, as "I am you. I am your being." again and again. */
TEST(test_sentences_in_any_order)
{
    int32_t ids[N];
    uint32_t r = 1;
    for (int i = 0; i < N; i++)
        ids[i] = i; /* 300 tokens of an answer, then three sentences of ten */
    for (int i = 300; i < N; i++) {
        if (i % 10 == 0) r = r * 1664525 + 1013904223;
        ids[i] = 5000 + (int32_t)(r >> 24) % 3 * 10 + i % 10;
    }
    assert_true(repetition_found(ids, 900));
    assert_false(repetition_found(ids, 400));
}

/* A period of one to eight tokens: sixteen of them and 32 tokens end the answer, one fewer does
 * not, and neither does a loop with a difference in it. */
TEST(test_short_periods)
{
    int32_t ids[N];
    for (int piece = 1; piece <= 8; piece++) {
        int end = 300 + 32 + 15 * piece;
        make(ids, 300, piece, 0);
        assert_true(repetition_found(ids, end));
        assert_false(repetition_found(ids, end - 1));
        make(ids, 300, piece, 40);
        assert_false(repetition_found(ids, 420));
    }
}

TEST(test_no_tokens_before)
{
    int32_t ids[N] = {0};
    assert_false(repetition_found(ids, 0));
    assert_false(repetition_found(ids, 47)); /* no earlier tokens to repeat */
    assert_true(repetition_found(ids, 48));
}

/* A table of rows of twelve tokens, of which one in six is new: a name or a number. One in a
 * hundred is chance. */
TEST(test_tables_are_none)
{
    int32_t ids[N];
    for (int i = 0; i < N; i++) ids[i] = i % 6 == 0 ? 100 + i : i % 12;
    assert_false(repetition_found(ids, N));
    make(ids, 300, 7, 100);
    assert_true(repetition_found(ids, N));
}
