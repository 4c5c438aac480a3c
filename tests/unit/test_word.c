/* The words of texts, read at once and in the pieces that tokens are. */

#include "tests/test.h"

#include "base/word.h"

static uint32_t word_of(const char *text)
{
    struct word_reader r = {0};
    size_t at = 0, from;
    uint32_t word;
    assert_true(word_next(&r, text, strlen(text), &at, &from, &word));
    return word;
}

static void splits(const char *text, const char *const *wants, size_t n)
{
    struct word_reader r = {0};
    size_t at = 0, from, i = 0;
    uint32_t word;
    for (; word_next(&r, text, strlen(text), &at, &from, &word); i++) {
        assert_true(i < n && from < at);
        assert_int_equal(word, word_of(wants[i]));
    }
    assert_int_equal(i, n);
}

TEST(test_splits)
{
    static const char *const wants[] = {
        "i",    "am",    "ann",         "don",          "they",
        "have", "62370", "caf\xc3\xa9", "\xe4\xbd\xa0", "\xe5\xa5\xbd"};
    splits("I'm Ann's; don't: they\xe2\x80\x99ve 62370-CAF\xc3\x89 (\xe4\xbd\xa0\xe5\xa5\xbd)\xff",
           wants, sizeof wants / sizeof *wants);
    splits(" .,'\xf0", NULL, 0);
    assert_int_not_equal(word_of("am"), word_of("m"));
}

/* A final s does not count, except in short words and after s, i and u. */
TEST(test_endings)
{
    static const char *const same[][2] = {{"starts", "start"}, {"Kilos", "kilo"}},
                             *const other[][2] = {{"glass", "glas"}, {"this", "thi"}, {"bus", "bu"},
                                                  {"1990s", "1990"}, {"gas", "ga"},   {"ss", "s"},
                                                  {"menus", "menu"}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        assert_int_equal(word_of(same[i][0]), word_of(same[i][1]));
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        assert_int_not_equal(word_of(other[i][0]), word_of(other[i][1]));
}

/* Tokens cut words and characters anywhere; the last piece of a word has the whole word. */
TEST(test_reads_pieces)
{
    static const struct {
        const char *bytes, *word; /* so far */
        bool joins;
    } pieces[] = {{" Z", "z", false},
                  {"yx", "zyx", true},
                  {"wvu", "zyxwvu", true},
                  {" caf\xc3", "caf", false},
                  {"\xa9", "caf\xc3\xa9", true},
                  {". I", "i", false},
                  {"'", NULL, false},
                  {"m", "am", false},
                  {" 12", "12", false},
                  {"7", "127", true},
                  {" sail", "sail", false},
                  {"s", "sail", true},
                  {"man", "sailsman", true},
                  {" s", "s", false}};
    struct word_reader r = {0};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        const struct word_piece p = word_read(&r, pieces[i].bytes, strlen(pieces[i].bytes));
        assert_int_equal(p.word, pieces[i].word ? word_of(pieces[i].word) : 0);
        assert_int_equal(p.joins, pieces[i].joins);
    }
}
