"""Host by host: what the paper says, what the authors' code does, where we differ and why, and which test compares.

`deviations` are all that remain; docs/reference/hosts.md repeats them. Whatever is not listed there is meant to be the authors'.
"""

from __future__ import annotations

from dataclasses import dataclass

_NO_WEIGHTS = "Real weights and benchmarks were not at hand: no number of the paper has been reproduced."


@dataclass(frozen=True)
class Account:
    """What is known about one host.

    Args:
        paper: what the SPARC paper says about it.
        authors: what the authors' code does, as read in the repository that the facts name.
        deviations: where we differ, each with its reason.
        compared: tests, as file::name, that hold our version against an independent one.
        open: what could not be compared.
    """

    paper: str
    authors: str
    deviations: tuple[str, ...]
    compared: tuple[str, ...]
    open: str = _NO_WEIGHTS


ACCOUNTS: dict[str, Account] = {
    "patchcore": Account(
        "WRN-50, the authors' implementation with resize and centre crop; SPARC before the reference is rebuilt.",
        "layer2 and layer3 as 3 x 3 neighbourhoods pooled to 1024 channels, a 10 % greedy coreset on a random projection, "
        "squared distance to the nearest vector, maximum for the image.",
        (
            "PatchCore: the 1024-d descriptor is computed in closed form, because unfolding needs nine times the memory; "
            "it equals the unfolded procedure to rounding.",
        ),
        (
            "tests/encoders/test_encoders.py::test_patchcore_aggregate_equals_the_unfolded_procedure",
            "tests/detectors/test_patchcore.py::test_coreset_is_the_authors_greedy_selection",
            "tests/detectors/test_patchcore.py::test_score_is_the_squared_distance_to_the_nearest_bank_row",
        ),
        f"{_NO_WEIGHTS} The random projection has the authors' distribution, not their random stream.",
    ),
    "padim": Account(
        "WRN-50, resize and centre crop; under mean-only nothing may change.",
        "layer1 to layer3 by nearest neighbour, 550 channels drawn with seed 1024, a Gaussian per position with a ridge "
        "of 0.01, Mahalanobis distance, maximum of the smoothed map.",
        (
            "PaDiM: with fewer images than channels the kernel form is used, in float64, because 56 x 56 covariances of 550 "
            "channels take 3.8 GB; the distances are the same.",
            "PaDiM: SPARC corrects all 1792 channels and the 550 are drawn afterwards, because the paper corrects what the "
            "encoder gives.",
        ),
        (
            "tests/detectors/test_padim.py::test_both_routes_equal_the_textbook",
            "tests/detectors/test_padim.py::test_channels_are_the_published_ones",
        ),
    ),
    "spade": Account(
        "WRN-50, resize and centre crop; its image score depends on corrected features and does not move under mean-only.",
        "five nearest images by the pooled layer4, nearest vector in their maps at three levels, averaged; sigma 4.",
        (
            "SPADE: distances run over channels, because the published code reduces over columns under a current PyTorch.",
            "SPADE: the whole gallery is searched, because the published code drops what is beyond a multiple of 100 vectors.",
            "SPADE: SPARC corrects layer4 as one more grid before it is pooled, because the paper reports a changed image "
            "score and mean-only rules out every reading but a linear pooling of cells.",
        ),
        (
            "tests/detectors/test_spade.py::test_scores_equal_the_loops",
            "tests/detectors/test_spade.py::test_only_the_nearest_images_form_the_gallery",
        ),
    ),
    "anomalydino": Account(
        "DINOv2-S/14; on VisA the images are centre-cropped.",
        "short side 448, final tokens at unit length, 1 - cosine to the nearest token, mean of the top 1 %; rotated "
        "references and a foreground mask by dataset and object.",
        (
            "AnomalyDINO: no rotated references, because a rotated part does not lie on the cells that SPARC corrects.",
            "AnomalyDINO: no foreground mask unless setting=mask:cls, because the authors give none for MVTec AD 2, AeBAD-S "
            "and RAD, and the paper does not say.",
            "AnomalyDINO: where there is a mask, it is dilated and closed in two dimensions, because the authors' code flattens "
            "it first and wraps at row ends; its principal component is exact instead of an unseeded solver's.",
            "AnomalyDINO: on VisA the input is cropped to 448 x 448, because the paper's geometry table says so and SPARC needs "
            "one grid per category.",
        ),
        (
            "tests/detectors/test_anomalydino.py::test_score_is_one_minus_the_best_cosine",
            "tests/encoders/test_positions.py::test_the_offset_form_is_the_authors",
            "tests/encoders/test_paper_encoders.py::test_anomalydino_reads_the_normed_patches_of_the_last_block",
        ),
    ),
    "subspacead": Account(
        "DINOv2-G.",
        "672 x 672, mean of blocks 22 to 28 of the network with registers, one PCA that explains 99 %, squared residual, "
        "mean of the top 1 % of map pixels.",
        (
            "SubspaceAD: the code is followed where its paper says otherwise (top 1 % of pixels, a 3 x 3 box instead of "
            "sigma 4), because the SPARC paper uses released implementations.",
            "SubspaceAD: mean and covariance see the same features, because the authors' two passes may see two augmentations; "
            "without augmentation that is the same.",
            "SubspaceAD: on networks of fewer than 18 blocks, which the authors' script cannot read, the blocks 6 to 3 from "
            "the end are averaged.",
        ),
        (
            "tests/detectors/test_subspacead.py::test_score_is_the_squared_residual_of_scikit_learns_pca",
            "tests/encoders/test_paper_encoders.py::test_subspacead_averages_raw_patches_of_blocks_22_to_28",
        ),
    ),
    "winclip": Account(
        "CLIP-B/16 on 14 x 14 cells of 768 channels; +16.4 points of image AUROC on MVTec AD 2, 75.4 on VisA, 19.4 AU-PRO 0.3 "
        "on sheet_metal.",
        "No official code. Public ports: ViT-B-16-plus-240, windows of 2 x 2 and 3 x 3 cells and texts beside patches, "
        "squashed input, 1 to 8 reference images.",
        (
            "WinCLIP: patches alone are scored (mode patch_only), because in WinCLIP+ they are a third of a map whose maximum "
            "is half of the image score, which leaves no room for the paper's gain; setting=mode:winclip_plus and others run.",
            "WinCLIP: short side 224 and a centre crop instead of a squashed image, because on 4:1 sheet_metal the paper's row "
            "stays with the hosts that crop.",
            "WinCLIP: all training images are the reference, because the paper builds references from the training features.",
            "WinCLIP: OpenAI's weights, because the paper says CLIP-B/16 and no more.",
        ),
        (
            "tests/detectors/test_winclip.py::test_both_window_modes_equal_the_loops",
            "tests/detectors/test_winclip.py::test_what_the_papers_sheet_metal_column_says_about_the_geometry",
            "tests/encoders/test_paper_encoders.py::test_winclip_reads_patches_after_ln_post_before_projection",
        ),
        f"{_NO_WEIGHTS} There is no official code to compare with.",
    ),
    "musc": Account(
        "CLIP-L/14; the test side alone is corrected.",
        "518 x 518, raw tokens of blocks 6, 12, 18 and 24, neighbourhoods of 1, 3 and 5, the nearest 30 % of the other images, "
        "maximum of the map, RsCIN over (1, 2, 3) neighbours, (1, 8, 9) on VisA.",
        (
            "MuSc: distances come from Gram matrices in bounded memory, because all of them at once take 1.5 GB per image; "
            "they equal the authors' cdist to rounding.",
            "MuSc: a lot of fewer than 5 images averages the nearest one, because the authors' interval is then empty.",
        ),
        (
            "tests/detectors/test_musc.py::test_musc_equals_the_loops",
            "tests/detectors/test_musc.py::test_mutual_scores_equal_cdist_at_any_memory_and_for_near_duplicates",
            "tests/encoders/test_paper_encoders.py::test_musc_reads_raw_patches_of_blocks_6_12_18_24",
        ),
    ),
    "anomalyclip-v": Account(
        "CLIP-L/14 with prompts learned on VisA; image scores do not depend on patches.",
        "518 x 518, a local stream of value-value attention in the last 19 blocks, two learned prompts, temperature 0.07.",
        (
            "AnomalyCLIP: the prompt sets are named by their folder (V is 9_12_4_multiscale_visa, M is 9_12_4_multiscale), "
            "because the paper's numbers are those of the authors' logs of these folders, though it says the opposite.",
            "AnomalyCLIP: layer 24 alone, because the released prompts were learned on it.",
        ),
        (
            "tests/detectors/test_anomalyclip.py::test_a_small_host_equals_the_slow_one_end_to_end",
            "tests/encoders/test_openclip.py::test_the_local_stream_equals_a_slow_one",
        ),
        f"{_NO_WEIGHTS} The prompt files were not at hand either.",
    ),
    "anomalyclip-m": Account(
        "CLIP-L/14 with prompts learned on MVTec AD.",
        "As anomalyclip-v.",
        (),
        ("tests/detectors/test_anomalyclip.py::test_learned_prompts_equal_a_slow_text_tower",),
        f"{_NO_WEIGHTS} The prompt files were not at hand either.",
    ),
    "fastrecon": Account(
        "Run in its intended regime: the support is the same k normals.",
        "256 x 256 by Lanczos, crop 224, layer2 and layer3 each averaged 3 x 3, layer3 by nearest neighbour, 1536 channels; "
        "a coreset of the support reconstructs the query, lambda 2.",
        (
            "FastRecon: the span of the coreset comes from an SVD, because the authors' inverse fails on duplicate patches.",
            "FastRecon: the whole support is used, because the authors' script keeps the last batch only.",
            "FastRecon: a coreset of 1 % (README), because the parser says 0.1 % and the paper does not tell.",
        ),
        (
            "tests/detectors/test_fastrecon.py::test_fastrecon_equals_the_formula",
            "tests/bench/plan/test_contenders.py::test_fastrecon_sees_what_its_authors_code_sees",
        ),
    ),
    "fastref": Account(
        "Reimplemented there too: Algorithm 1, Euclidean, on WRN-50 PatchCore-style prototypes.",
        "No code is published. Read: Algorithm 1 and the settings of PatchCore+ (lambda 0.3, alpha 0.05, two rounds, fewer than "
        "ten Sinkhorn sweeps).",
        (
            "FastRef: PatchCore's own descriptor and preprocessing, because its text puts it on PatchCore.",
            "FastRef: a row of the transport plan weighs as much as a row of the query, because the literal 1/m changes residuals "
            "by parts in ten million while the authors report an effect.",
            "FastRef: epsilon is 0.01 of the mean cost, because the text gives none; it was chosen on rendered parts.",
        ),
        (
            "tests/detectors/test_fastref.py::test_fastref_equals_algorithm_1",
            "tests/detectors/test_fastref.py::test_literal_transport_does_nothing_that_could_be_seen",
        ),
        f"{_NO_WEIGHTS} There is no code to compare with.",
    ),
    "sparc": Account(
        "Eqs. 2 to 8: per cell, the right singular vectors of the centred k x d matrix are projected out, on both sides.",
        "Not released yet.",
        (
            "SPARC: whether a direction counts is judged against the length of the raw features, because on the centred matrix "
            "alone a rounding direction passes where the images coincide.",
        ),
        (
            "tests/test_sparc.py::test_equals_the_per_cell_loop",
            "tests/test_sparc.py::test_a_rank_above_k_minus_1_saturates_with_a_warning",
        ),
        "The paper's own draws are not known, so its seeds cannot be repeated.",
    ),
    "controls": Account(
        "CORAL on unit-length features with lambda 1, batch-norm statistics of the lot, AU-PRO by anomalib at native size.",
        "Batch norm: bethgelab/robustness. AU-PRO: anomalib 2.4.",
        (
            "Cross-scene: a draw spares one good scene wherever the category has one to spare, because otherwise most draws of "
            "8 from 4 scenes leave nothing to evaluate, and the paper's small spread says that its categories were the same in "
            "every seed.",
            "Diagnostics: DC energy is read as the mean over cells of the squared distance between the lot's and the training "
            "mean, because the paper prints energies without a formula; layer3 is brought up by nearest neighbour, because it "
            "does not say how.",
            "Backbones: Swin's features are put channels last, because the paper's Swin row looks like an unpermuted layout.",
            "Contamination: anomalous images that calibrate are not evaluated, because the paper does not say and they would be "
            "seen twice.",
        ),
        (
            "tests/corrections/test_corrections.py::test_coral_equals_the_textbook_formula",
            "tests/encoders/test_batchnorm.py::test_a_timm_resnet_equals_its_functional_form_with_mixed_statistics",
            "tests/bench/metrics/test_region_overlap.py::test_aupro_equals_the_definition",
            "tests/bench/report/test_measured.py::test_the_main_table_follows_from_the_category_tables",
        ),
    ),
}
