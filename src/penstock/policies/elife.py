"""placeholder"""

from penstock.core.engine import Ranking
from penstock.core.ranking import MATCHES, RATES, STAY
from penstock.policies.life import Life


class Elife(Life):
    name = "elife"

    def ranking(self, problem):
        if problem.priced_by_key and problem.ages_in_order:
            return Ranking(STAY, MATCHES if problem.stats == "window" else RATES)
        return None
