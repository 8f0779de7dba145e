"""What every method does, in one sentence for people who do not design mechanisms."""

from __future__ import annotations

METHODS = {
    "grr": "Randomised response: the true cell with a set probability, else any other cell, all alike.",
    "sue": "Symmetric unary encoding: a list of yes/no answers, one for each value, each flipped at random.",
    "oue": "Optimised unary encoding: a list of yes/no answers, one for each value, each flipped at random.",
    "distortion": "The released value stays as near to the true one as the promise allows.",
    "hamming": "A response to the value that lies as seldom as the promise allows.",
    "ballopt": "The most informative answers found that keep the promise for every distribution in the set.",
    "polyopt": "The most informative mixture of a fixed list of answers that keep the promise for every distribution.",
    "nr": "The most informative answers that keep the promise at the design distribution.",
    "srr": "Secret randomised response: a lie about the secret is likelier than one about the rest alone.",
    "ir": "Independent reporting: the secret and the rest are randomised one by one.",
    "pml": "The most informative answers found that raise no belief about the secret too far.",
    "lip": "The most informative answers on the rest alone that move no belief about the secret too far.",
    "ldp": "The most informative answers on the rest alone that move no odds of the secret too far.",
    "srlip": "Answers on several columns, safe also against readers who know some of these columns.",
    "srlip-paper": "Answers column by column as in the paper, whose composition theorem does not hold.",
    "mi-funnel": "Answers on the rest alone that tell little about the secret on average.",
    "leakage": "A table of probabilities with the least expected distortion that its limits on leakage allow.",
    "precise": "A table of probabilities from which the true distribution can be estimated as well as possible.",
    "cr": "Conditional reporting: the rest is kept, or drawn anew as if the secret were another.",
}
