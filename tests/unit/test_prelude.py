"""What a Redis script gets of the prelude."""

from packhorse.stores.redis.prelude import Prelude
from packhorse.stores.redis.scripts import shipped

FIRST = """-- gives: near far stored
local far_away = 'a near thing'
function near() return 1 end
function far() return far_away end
stored = {}
stored[1] = near
"""
SECOND = """-- gives: both
local function near_enough() return near() end
function both()
  return near_enough(), 1
end
"""


def test_a_verb_gets_what_it_uses_and_what_that_uses():
    text = Prelude([FIRST, SECOND]).for_verb("return both()")

    assert "function near()" in text
    assert "function near_enough()" in text
    assert "far" not in text


def test_a_word_in_a_text_a_comment_or_behind_a_dot_is_no_use_of_a_name():
    assert Prelude([FIRST, SECOND]).for_verb("return 'both', it.near -- far") == ""


def test_a_statement_that_makes_no_name_goes_with_the_one_before_it():
    text = Prelude([FIRST]).for_verb("return stored")

    assert "stored[1] = near" in text
    assert "function near()" in text


def test_what_a_part_keeps_for_itself_is_not_seen_by_others():
    assert Prelude([FIRST, SECOND]).for_verb("return far_away or near_enough") == ""


def test_a_short_verb_is_not_given_the_way_of_jobs_through_places_and_ends():
    assert "function conclude(" in shipped()["renew"].text
    assert "function finish(" not in shipped()["renew"].text
    assert "function finish(" in shipped()["exchange"].text
